//! Reads the dump of an EinGraph (its form is described in `display.rs`).

mod expr;

use std::str::FromStr;
use std::sync::Arc;

use super::lex::{Place, Token, tokens};
use super::{Clause, Cmp, EinGraph, GraphBuilder, GraphError, NodeId, Pin, Role, Store, Window};
use crate::ein::einsum::{EinSumError, EinSumSpec};
use crate::ein::{
    Agg, Aggregation, Component, DType, EinSum, Expr, Label, LabelId, Operand, RecordAgg, Reduce,
};

/// Why a dump was refused, and where.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong.
    #[source]
    pub kind: ParseErrorKind,
}

crate::debug_is_text!(ParseError);

/// What is wrong with a dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// A character that starts no token.
    #[error("`{0}` has no meaning here")]
    BadChar(char),
    /// A string without its end.
    #[error("this string does not end")]
    Unterminated,
    /// An escape that Rust does not write.
    #[error("this escape has no meaning")]
    Escape,
    /// A number that does not fit.
    #[error("this number does not fit")]
    Number,
    /// Another token is needed.
    #[error("{0} is needed here")]
    Expected(&'static str),
    /// Nesting or length past what a graph needs.
    #[error("this expression is too large")]
    TooLarge,
    /// A name that is no label of the statement, or of several: those are written `#n`.
    #[error("`{0}` does not name one index of this statement")]
    UnknownLabel(String),
    /// No scalar function has that name and number of arguments.
    #[error("there is no function `{name}` of {arguments} arguments")]
    UnknownFunction {
        /// As written.
        name: String,
        /// Arguments written.
        arguments: usize,
    },
    /// A node or literal whose number is not the next one.
    #[error("number {0} is the next one")]
    Sequence(usize),
    /// Operands both inline and listed after `of`.
    #[error("operands are read inline or listed after `of`, not both")]
    MixedOperands,
    /// A statement that is no EinSum.
    #[error(transparent)]
    EinSum(#[from] EinSumError),
    /// A statement that does not fit the graph.
    #[error(transparent)]
    Graph(Box<GraphError>),
}

impl From<GraphError> for ParseErrorKind {
    fn from(e: GraphError) -> ParseErrorKind {
        ParseErrorKind::Graph(Box::new(e))
    }
}

impl ParseError {
    pub(super) fn new(place: Place, kind: ParseErrorKind) -> ParseError {
        ParseError {
            line: place.line,
            column: place.column,
            kind,
        }
    }
}

impl EinGraph {
    /// The graph that `text` is the dump of.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<EinGraph, ParseError> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            size: 0,
            records: Vec::new(),
        };
        parser.graph()
    }
}

impl FromStr for EinGraph {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<EinGraph, ParseError> {
        EinGraph::parse(text)
    }
}

/// Nested parentheses of one expression.
const MAX_DEPTH: usize = 100;
/// Operators of one statement; no expression is nested deeper than this.
const MAX_SIZE: usize = 1000;
/// Monomials of one extent.
const MAX_TERMS: usize = 1000;

type Parsed<T> = Result<T, ParseError>;

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    depth: usize,
    size: usize,
    /// The record aggregations defined so far.
    records: Vec<Arc<RecordAgg>>,
}

/// Labels and operands of the statement being read.
#[derive(Default)]
struct Scope {
    labels: Vec<Label>,
    operands: Vec<Operand>,
    /// Element type of its result.
    dtype: Option<DType>,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn peek_second(&self) -> &Token {
        let at = (self.at + 1).min(self.tokens.len() - 1);
        &self.tokens[at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        // The last token is the end, and stays.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error<T>(&self, kind: impl Into<ParseErrorKind>) -> Parsed<T> {
        Err(ParseError::new(self.tokens[self.at].1, kind.into()))
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Token::Punct(p) if *p == punct)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.next();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, punct: &'static str) -> Parsed<()> {
        if self.eat(punct) {
            Ok(())
        } else {
            self.error(ParseErrorKind::Expected(punct))
        }
    }

    fn text(&mut self) -> Parsed<Arc<str>> {
        match self.peek() {
            Token::Text(_) => match self.next() {
                Token::Text(s) => Ok(s.into()),
                _ => unreachable!("just seen"),
            },
            _ => self.error(ParseErrorKind::Expected("a name in quotes")),
        }
    }

    fn reference(&mut self, sigil: char, what: &'static str) -> Parsed<u32> {
        match *self.peek() {
            Token::Ref(s, n) if s == sigil => {
                self.next();
                Ok(n)
            }
            _ => self.error(ParseErrorKind::Expected(what)),
        }
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let found = match self.peek() {
            Token::Word(w) => DType::from_name(w),
            _ => None,
        };
        match found {
            Some(d) => {
                self.next();
                Ok(d)
            }
            None => self.error(ParseErrorKind::Expected("an element type")),
        }
    }

    /// Items up to `close`, separated by commas.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Parser) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(",") {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Counts an operator, so that no tree is deeper than a stack can walk.
    fn grow(&mut self) -> Parsed<()> {
        self.size += 1;
        if self.size > MAX_SIZE {
            return self.error(ParseErrorKind::TooLarge);
        }
        Ok(())
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(ParseErrorKind::TooLarge);
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn graph(&mut self) -> Parsed<EinGraph> {
        if !self.eat_word("eingraph") {
            return self.error(ParseErrorKind::Expected("eingraph"));
        }
        self.expect("{")?;
        let mut graph = GraphBuilder::new();
        let (mut nodes, mut slots) = (0, 0);
        let mut start = self.at;
        while !self.eat("}") {
            (start, self.size) = (self.at, 0);
            if self.eat_word("slot") {
                if self.reference('$', "$ and a number")? != slots {
                    return self.error(ParseErrorKind::Sequence(slots as usize));
                }
                self.expect("=")?;
                graph.push_slot(self.value()?);
                slots += 1;
            } else if self.eat_word("clause") {
                graph.clause(self.clause()?);
            } else if self.eat_word("agg") {
                let record = self.record()?;
                self.records.push(Arc::new(record));
            } else if self.eat_word("output") {
                let name = self.text()?;
                self.expect("=")?;
                let node = self.reference('%', "a node")?;
                let added = graph.output(name, NodeId(node));
                self.placed(start, added)?;
            } else {
                if self.reference('%', "a node, slot, clause, output or }")? != nodes {
                    self.at = start;
                    return self.error(ParseErrorKind::Sequence(nodes as usize));
                }
                let name = self.text()?;
                self.expect("=")?;
                self.node(&mut graph, name, start)?;
                nodes += 1;
            }
        }
        if *self.peek() != Token::End {
            return self.error(ParseErrorKind::Expected("the end"));
        }
        let finished = graph.finish();
        self.placed(start, finished)
    }

    /// An error of the statement that starts at token `start`.
    fn placed<T>(&self, start: usize, result: Result<T, impl Into<ParseErrorKind>>) -> Parsed<T> {
        result.map_err(|e| ParseError::new(self.tokens[start].1, e.into()))
    }

    fn clause(&mut self) -> Parsed<Clause> {
        let left = self.dim()?;
        let cmps = [Cmp::Eq, Cmp::Le, Cmp::Ge, Cmp::Lt, Cmp::Gt];
        let Some(cmp) = cmps.into_iter().find(|c| self.eat(c.symbol())) else {
            return self.error(ParseErrorKind::Expected("a comparison"));
        };
        let right = self.dim()?;
        if !self.eat_word("from") {
            return self.error(ParseErrorKind::Expected("from"));
        }
        let origin = self.text()?;
        Ok(Clause {
            left,
            cmp,
            right,
            origin,
        })
    }

    fn node(&mut self, graph: &mut GraphBuilder, name: Arc<str>, start: usize) -> Parsed<()> {
        let role = [Role::Data, Role::Weight, Role::State]
            .into_iter()
            .find(|r| self.is_word(r.keyword()));
        let typed = matches!(self.peek_second(), Token::Word(w) if DType::from_name(w).is_some());
        if let Some(role) = role.filter(|_| typed) {
            self.next();
            let dtype = self.dtype()?;
            self.expect("[")?;
            let shape = self.list("]", Parser::dim)?;
            let added = graph.input(name, role, dtype, shape);
            let node = self.placed(start, added)?;
            graph.pin(node, self.pins()?);
            return Ok(());
        }
        let spec = self.statement()?;
        let store = match self.eat_word("store") {
            true => Some(self.store()?),
            false => None,
        };
        let pins = self.pins()?;
        let einsum = self.placed(start, EinSum::new(spec))?;
        let added = match store {
            Some(store) => graph.store(name, einsum, store, pins),
            None => graph.einsum(name, einsum, pins),
        };
        self.placed(start, added).map(|_| ())
    }

    fn store(&mut self) -> Parsed<Store> {
        let state = NodeId(self.reference('%', "a state")?);
        let old = self.reference('@', "an operand")? as usize;
        self.expect("[")?;
        let windows = self.list("]", |p| {
            if p.eat_word("all") {
                return Ok(Window::All);
            }
            let ring = p.eat_word("ring");
            let start = p.expr(&mut Scope::default(), 0)?;
            if !p.eat_word("for") {
                return p.error(ParseErrorKind::Expected("for"));
            }
            let length = p.dim()?;
            Ok(match ring {
                true => Window::Ring { start, length },
                false => Window::Range { start, length },
            })
        })?;
        Ok(Store {
            state,
            old,
            windows,
        })
    }

    fn pins(&mut self) -> Parsed<Vec<Pin>> {
        let mut pins = Vec::new();
        while self.eat_word("pin") {
            pins.push(self.pin()?);
        }
        Ok(pins)
    }

    fn pin(&mut self) -> Parsed<Pin> {
        if self.eat_word("whole") {
            return Ok(Pin::Whole);
        }
        let owner = self.eat_word("owner");
        if !owner && !self.eat_word("split") {
            return self.error(ParseErrorKind::Expected("whole, split or owner"));
        }
        self.expect("(")?;
        let pin = if owner {
            self.expect("[")?;
            let parts = self.list("]", Parser::number)?;
            let devices = match self.eat(",") {
                true => {
                    self.expect("[")?;
                    Some(self.list("]", Parser::number)?)
                }
                false => None,
            };
            Pin::Owner { parts, devices }
        } else {
            let label = self.text()?;
            self.expect(",")?;
            Pin::Split(label, self.number()?)
        };
        self.expect(")")?;
        Ok(pin)
    }

    fn number(&mut self) -> Parsed<u32> {
        let number = self.integer()?;
        match u32::try_from(number) {
            Ok(number) => Ok(number),
            Err(_) => self.error(ParseErrorKind::Number),
        }
    }

    fn statement(&mut self) -> Parsed<EinSumSpec> {
        // The labels of the output come first, so the end of the statement is read first.
        let start = self.at;
        while !self.is("->") {
            if *self.peek() == Token::End {
                return self.error(ParseErrorKind::Expected("->"));
            }
            self.next();
        }
        let arrow = self.at;
        self.next();
        let dtype = self.dtype()?;
        let mut scope = Scope {
            dtype: Some(dtype),
            ..Scope::default()
        };
        self.expect("[")?;
        let out = self.list("]", |p| {
            if p.eat("(") {
                p.list(")", |p| p.declare(&mut scope))
            } else {
                Ok(vec![p.declare(&mut scope)?])
            }
        })?;
        let end = std::mem::replace(&mut self.at, start);
        let reduce = self.reduce(&mut scope)?;
        let body = self.reduced(&mut scope, reduce.as_ref())?;
        if self.is_word("of") {
            if !scope.operands.is_empty() {
                return self.error(ParseErrorKind::MixedOperands);
            }
            self.next();
            loop {
                // The indices of a listed operand refer to earlier ones by number.
                let before = scope.operands.len();
                self.primary(&mut scope)?;
                if scope.operands.len() != before + 1 {
                    return self.error(ParseErrorKind::Expected("an access"));
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        if self.at != arrow {
            return self.error(ParseErrorKind::Expected("->"));
        }
        self.at = end;
        Ok(EinSumSpec {
            labels: scope.labels,
            out,
            reduce,
            operands: scope.operands,
            body,
            dtype,
        })
    }

    /// The definition of a record aggregation, after its keyword.
    fn record(&mut self) -> Parsed<RecordAgg> {
        let known = self.records.len();
        if self.reference('&', "& and a number")? as usize != known {
            return self.error(ParseErrorKind::Sequence(known));
        }
        let name = self.text()?;
        self.expect("(")?;
        let args = self.list(")", Parser::dtype)?;
        self.expect("{")?;
        let (mut state, mut none) = (Vec::new(), Scope::default());
        while !self.eat("}") {
            let name = self.text()?;
            self.expect(":")?;
            let dtype = self.dtype()?;
            self.expect("=")?;
            let identity = self.value()?;
            self.expect_word("lift")?;
            let lift = self.expr(&mut none, 0)?;
            self.expect_word("merge")?;
            let merge = self.expr(&mut none, 0)?;
            self.expect(";")?;
            state.push(Component {
                name,
                dtype,
                identity,
                lift,
                merge,
            });
        }
        self.expect_word("finish")?;
        let dtype = self.dtype()?;
        let finish = self.expr(&mut none, 0)?;
        if !none.operands.is_empty() {
            return self.error(ParseErrorKind::Expected(
                "a definition that reads no tensor",
            ));
        }
        Ok(RecordAgg {
            name,
            args,
            state,
            finish,
            dtype,
        })
    }

    fn expect_word(&mut self, word: &'static str) -> Parsed<()> {
        match self.eat_word(word) {
            true => Ok(()),
            false => self.error(ParseErrorKind::Expected(word)),
        }
    }

    /// The head of a reduction, if one stands here.
    fn reduce(&mut self, scope: &mut Scope) -> Parsed<Option<Reduce>> {
        let agg = match self.peek() {
            Token::Word(w) => Agg::from_name(w).map(Aggregation::Row),
            Token::Ref('&', n) => match self.records.get(*n as usize) {
                Some(record) => Some(Aggregation::Record(record.clone())),
                None => return self.error(ParseErrorKind::Expected("an aggregation")),
            },
            _ => None,
        };
        let bracket = matches!(self.peek_second(), Token::Punct("["));
        let Some(agg) = agg.filter(|_| bracket) else {
            return Ok(None);
        };
        self.next();
        self.next();
        let labels = self.list(";", |p| p.declare(scope))?;
        let acc = self.dtype()?;
        let filter = match self.eat_word("where") {
            true => Some(self.expr(scope, 0)?),
            false => None,
        };
        self.expect("]")?;
        Ok(Some(Reduce {
            agg,
            labels,
            acc,
            filter,
        }))
    }

    /// What is reduced: the arguments of a record aggregation, or an expression.
    fn reduced(&mut self, scope: &mut Scope, reduce: Option<&Reduce>) -> Parsed<Expr> {
        match reduce.and_then(|r| r.agg.record()) {
            None => self.expr(scope, 0),
            Some(_) => {
                self.expect("(")?;
                let args = self.nested(|p| p.list(")", |p| p.expr(scope, 0)))?;
                Ok(Expr::Tuple(args))
            }
        }
    }

    fn declare(&mut self, scope: &mut Scope) -> Parsed<LabelId> {
        let name = match self.peek() {
            Token::Word(w) => w.clone(),
            Token::Text(w) => w.clone(),
            _ => return self.error(ParseErrorKind::Expected("an index")),
        };
        let Ok(id) = u16::try_from(scope.labels.len()) else {
            return self.error(ParseErrorKind::TooLarge);
        };
        self.next();
        self.expect("=")?;
        let extent = self.dim()?;
        scope.labels.push(Label {
            name: name.into(),
            extent,
        });
        Ok(LabelId(id))
    }
}

#[cfg(test)]
mod tests;
