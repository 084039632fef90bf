//! Reads the dump of an EinGraph (its form is described in `display.rs`).

use std::str::FromStr;
use std::sync::Arc;

use super::display::RESERVED;
use super::lex::{Place, Token, tokens};
use super::{Clause, Cmp, EinGraph, GraphBuilder, GraphError, NodeId, Pin, Role};
use crate::ein::einsum::{EinSumError, EinSumSpec};
use crate::ein::{Agg, DType, Dim, EinSum, Expr, Label, LabelId, Operand, Reduce, ScalarFn, Value};

/// Why a dump was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    Graph(#[from] GraphError),
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
}

/// Labels and operands of the statement being read.
#[derive(Default)]
struct Scope {
    labels: Vec<Label>,
    operands: Vec<Operand>,
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
            return self.placed(start, added).map(|_| ());
        }
        let spec = self.statement()?;
        let mut pins = Vec::new();
        while self.eat_word("pin") {
            pins.push(self.pin()?);
        }
        let einsum = self.placed(start, EinSum::new(spec))?;
        let added = graph.einsum(name, einsum, pins);
        self.placed(start, added).map(|_| ())
    }

    fn pin(&mut self) -> Parsed<Pin> {
        if self.eat_word("whole") {
            return Ok(Pin::Whole);
        }
        if !self.eat_word("split") {
            return self.error(ParseErrorKind::Expected("whole or split"));
        }
        self.expect("(")?;
        let label = self.text()?;
        self.expect(",")?;
        let parts = self.integer()?;
        let Ok(parts) = u32::try_from(parts) else {
            return self.error(ParseErrorKind::Number);
        };
        self.expect(")")?;
        Ok(Pin::Split(label, parts))
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
        let mut scope = Scope::default();
        let dtype = self.dtype()?;
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
        let body = self.expr(&mut scope, 0)?;
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

    fn reduce(&mut self, scope: &mut Scope) -> Parsed<Option<Reduce>> {
        let agg = match self.peek() {
            Token::Word(w) => Agg::from_name(w),
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

    /// Binary operators of level `least` or tighter.
    fn expr(&mut self, scope: &mut Scope, least: usize) -> Parsed<Expr> {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let mut left = self.unary(scope)?;
        loop {
            let symbol = match *self.peek() {
                Token::Punct(p) => p,
                _ => return Ok(left),
            };
            let level = LEVELS.iter().position(|l| l.contains(&symbol));
            let function = ScalarFn::from_symbol(symbol, 2);
            let (Some(level), Some(f)) = (level.filter(|&l| l >= least), function) else {
                return Ok(left);
            };
            self.next();
            self.grow()?;
            let right = self.nested(|p| p.expr(scope, level + 1))?;
            left = Expr::call(f, [left, right]);
        }
    }

    fn unary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        let literal = match self.peek_second() {
            Token::Number(_) => true,
            Token::Word(w) => w == "inf",
            _ => false,
        };
        let mut x = if self.is("!") || (self.is("-") && !literal) {
            let f = if self.is("!") {
                ScalarFn::NOT
            } else {
                ScalarFn::NEG
            };
            self.next();
            self.grow()?;
            // `as` binds looser than `-` and `!`.
            let x = self.nested(|p| p.operand_of_unary(scope))?;
            Expr::call(f, [x])
        } else {
            self.primary(scope)?
        };
        while self.eat_word("as") {
            self.grow()?;
            x = Expr::Cast(self.dtype()?, Box::new(x));
        }
        Ok(x)
    }

    fn operand_of_unary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        for (symbol, f) in [("-", ScalarFn::NEG), ("!", ScalarFn::NOT)] {
            if self.eat(symbol) {
                self.grow()?;
                let x = self.nested(|p| p.operand_of_unary(scope))?;
                return Ok(Expr::call(f, [x]));
            }
        }
        self.primary(scope)
    }

    fn primary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        match self.peek().clone() {
            Token::Ref('%', n) => self.access(scope, NodeId(n)),
            Token::Ref('@', n) => {
                self.next();
                Ok(Expr::Operand(n as usize))
            }
            Token::Ref('$', n) => {
                self.next();
                self.expect(":")?;
                Ok(Expr::Slot(n, self.dtype()?))
            }
            Token::Ref('#', n) => {
                if n as usize >= scope.labels.len() {
                    return self.error(ParseErrorKind::UnknownLabel(format!("#{n}")));
                }
                self.next();
                Ok(Expr::Index(LabelId(n as u16)))
            }
            Token::Punct("{") => {
                self.next();
                let dim = self.dim()?;
                self.expect("}")?;
                Ok(Expr::Dim(dim))
            }
            Token::Punct("(") => {
                self.next();
                let x = self.nested(|p| p.expr(scope, 0))?;
                if self.is_word("else") {
                    let last = scope.operands.len().wrapping_sub(1);
                    match scope.operands.last_mut() {
                        Some(o) if x == Expr::Operand(last) && o.otherwise.is_none() => {
                            self.next();
                            o.otherwise = Some(self.value()?);
                        }
                        _ => return self.error(ParseErrorKind::Expected("an access before else")),
                    }
                }
                self.expect(")")?;
                Ok(x)
            }
            Token::Word(w) if matches!(self.peek_second(), Token::Punct("(")) => {
                self.grow()?;
                let place = self.at;
                self.next();
                self.next();
                let mut args = self.nested(|p| p.list(")", |p| p.expr(scope, 0)))?;
                if let ("if", [c, a, b]) = (w.as_str(), args.as_mut_slice()) {
                    let take = |x: &mut Expr| Box::new(std::mem::replace(x, Expr::Operand(0)));
                    return Ok(Expr::If(take(c), take(a), take(b)));
                }
                match ScalarFn::from_name(&w, args.len()) {
                    Some(f) => Ok(Expr::Call(f, args)),
                    None => {
                        self.at = place;
                        self.error(ParseErrorKind::UnknownFunction {
                            name: w,
                            arguments: args.len(),
                        })
                    }
                }
            }
            Token::Word(w) if !RESERVED.contains(&w.as_str()) => {
                let mut found = scope
                    .labels
                    .iter()
                    .enumerate()
                    .filter(|(_, l)| *l.name == *w);
                match (found.next(), found.next()) {
                    (Some((at, _)), None) => {
                        self.next();
                        Ok(Expr::Index(LabelId(at as u16)))
                    }
                    _ => self.error(ParseErrorKind::UnknownLabel(w)),
                }
            }
            _ => {
                let value = self.value()?;
                if self.eat(":") {
                    return Ok(Expr::Const(value, self.dtype()?));
                }
                match value {
                    Value::Int(_) => Ok(Expr::Const(value, DType::I64)),
                    _ => self.error(ParseErrorKind::Expected("a colon and an element type")),
                }
            }
        }
    }

    fn access(&mut self, scope: &mut Scope, node: NodeId) -> Parsed<Expr> {
        self.grow()?;
        self.next();
        self.expect("[")?;
        let index = self.nested(|p| p.list("]", |p| p.expr(scope, 0)))?;
        scope.operands.push(Operand {
            node,
            index,
            otherwise: None,
        });
        Ok(Expr::Operand(scope.operands.len() - 1))
    }

    fn integer(&mut self) -> Parsed<i64> {
        let Token::Number(text) = self.peek() else {
            return self.error(ParseErrorKind::Expected("an integer"));
        };
        match text.parse() {
            Ok(n) => {
                self.next();
                Ok(n)
            }
            Err(_) => self.error(ParseErrorKind::Number),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        let negative = self.eat("-");
        let sign = if negative { -1.0 } else { 1.0 };
        let value = match self.peek() {
            Token::Word(w) => match w.as_str() {
                "inf" => Some(Value::Float(sign * f64::INFINITY)),
                "nan" if !negative => Some(Value::Float(f64::NAN)),
                "true" if !negative => Some(Value::Bool(true)),
                "false" if !negative => Some(Value::Bool(false)),
                _ => return self.error(ParseErrorKind::Expected("an expression or a value")),
            },
            Token::Number(text) if text.contains(['.', 'e']) => {
                text.parse::<f64>().ok().map(|x| Value::Float(sign * x))
            }
            Token::Number(text) => {
                let magnitude = text.parse::<i128>().ok();
                let signed = magnitude.map(|n| if negative { -n } else { n });
                signed.and_then(|n| i64::try_from(n).ok()).map(Value::Int)
            }
            _ => return self.error(ParseErrorKind::Expected("an expression or a value")),
        };
        match value {
            Some(value) => {
                self.next();
                Ok(value)
            }
            None => self.error(ParseErrorKind::Number),
        }
    }

    fn dim(&mut self) -> Parsed<Dim> {
        let mut sum = Dim::default();
        let mut minus = self.eat("-");
        loop {
            let term = self.dim_term()?;
            sum = if minus { &sum - &term } else { &sum + &term };
            if sum.terms().count() > MAX_TERMS {
                return self.error(ParseErrorKind::TooLarge);
            }
            minus = self.is("-");
            if !minus && !self.is("+") {
                return Ok(sum);
            }
            self.next();
        }
    }

    fn dim_term(&mut self) -> Parsed<Dim> {
        let mut product = self.dim_factor()?;
        loop {
            let Some(op) = ["*", "/", "%"].into_iter().find(|op| self.eat(op)) else {
                return Ok(product);
            };
            self.grow()?;
            let right = self.dim_factor()?;
            if product.terms().count() * right.terms().count() > MAX_TERMS {
                return self.error(ParseErrorKind::TooLarge);
            }
            product = match op {
                "*" => &product * &right,
                "/" => product.floor_div(&right),
                _ => product.rem(&right),
            };
        }
    }

    fn dim_factor(&mut self) -> Parsed<Dim> {
        match self.peek().clone() {
            Token::Word(w) => {
                self.next();
                Ok(Dim::sym(w))
            }
            Token::Number(_) => self.integer().map(Dim::from),
            Token::Punct("(") => {
                self.next();
                let dim = self.nested(Parser::dim)?;
                self.expect(")")?;
                Ok(dim)
            }
            _ => self.error(ParseErrorKind::Expected("an extent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::random_graph;
    use super::*;
    use proptest::prelude::*;

    const DUMP: &str = r#"eingraph {
  slot $0 = 0.125
  clause S <= 512 from "m.rs:3"
  clause 2*(D % H) + 1 == D / H - 1 from "say \"so\""
  %0 "x" = input f32[B, S]
  %1 "l.w" = weight f32[S, 4]
  %2 "at" = state i64[B]
  %3 "h" = sum[s=S; f32 where s != 0 && s < {D / H}] %0[b, s] * %1[s, e] * $0:f32 -> f32[b=B, e=4] pin split("b", 2)
  %4 "twice" = @0 * (@0 + @1) of %3[b, e], (%3[b + 1, e] else -inf) -> f32[(b=B, e=4)] pin whole
  %5 "g" = max(-%1[%2[b], 2 * e - 1] as f64 as f32, -(1.0:f32)) -> f32[b=B, "e'"=4, e=2]
  %6 "best" = argmax[v=4; f32] if(v % 2 == -3, %3[b, v], nan:f32) -> i64[b=B]
  %7 "d" = %5[b, #1, #2] - (%5[b, #1, #2] - 1e-7:f32) -> f32[b=B, e=4, e=2]
  output "y" = %4
  output "z" = %7
}
"#;

    #[test]
    fn every_form_prints_as_it_was_read() {
        let graph = EinGraph::parse(DUMP).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(graph.to_string(), DUMP);
        assert_eq!(graph.verify(), Ok(()));
    }

    #[test]
    fn errors_have_a_place() {
        let check = |from: &str, to: &str, expect: &str| {
            let error = EinGraph::parse(&DUMP.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.to_string(), expect, "{from} as {to}");
        };
        check(
            "%1 \"l",
            "%7 \"l",
            "line 6, column 3: number 1 is the next one",
        );
        check(
            "e] * $0",
            "q] * $0",
            "line 8, column 71: `q` does not name one index of this statement",
        );
        check(
            "argmax",
            "arg~max",
            "line 11, column 18: `~` has no meaning here",
        );
        check(
            "max(-",
            "maxx(-",
            "line 10, column 12: there is no function `maxx` of 2 arguments",
        );
        check(
            "%0[b, s]",
            "%0[b]",
            "line 8, column 3: `x` has 2 axes, but `h` gives 1 indices",
        );
        check(
            "\"z\"",
            "\"y\"",
            "line 14, column 3: the name `y` is used twice",
        );
        check(
            "argmax",
            "mean",
            "line 11, column 3: `mean` is lowered to other aggregations before it gets here",
        );
        let deep = DUMP.replacen("max(-", &"(".repeat(100_000), 1);
        assert_eq!(
            EinGraph::parse(&deep).unwrap_err().kind,
            ParseErrorKind::TooLarge
        );
        let long = DUMP.replacen("max(-", &"1 + ".repeat(100_000), 1);
        assert_eq!(
            EinGraph::parse(&long).unwrap_err().kind,
            ParseErrorKind::TooLarge
        );
    }

    #[test]
    fn no_prefix_parses_or_panics() {
        for (at, _) in DUMP.trim_end().char_indices() {
            assert!(EinGraph::parse(&DUMP[..at]).is_err());
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_print(seed: u64, statements in 1..6usize) {
            let graph = random_graph(seed, statements).graph;
            let text = graph.to_string();
            match EinGraph::parse(&text) {
                Ok(back) => prop_assert_eq!(back, graph),
                Err(e) => prop_assert!(false, "{}\n{}", e, text),
            }
        }

        #[test]
        fn mutations_never_panic(edits in prop::collection::vec((0..900usize, any::<char>(), 0..4usize), 1..4)) {
            const BYTES: &[u8] = b"%@$#[](){}=,;:+-*/<>!&|\"0149.eis \n";
            let mut text: Vec<char> = DUMP.chars().collect();
            for (at, any, kind) in edits {
                let at = at % text.len();
                match kind {
                    0 => { text.remove(at); }
                    1 => text[at] = BYTES[any as usize % BYTES.len()] as char,
                    2 => text.insert(at, BYTES[any as usize % BYTES.len()] as char),
                    _ => text[at] = any,
                }
            }
            let text: String = text.into_iter().collect();
            if let Ok(graph) = EinGraph::parse(&text) {
                prop_assert_eq!(EinGraph::parse(&graph.to_string()), Ok(graph));
            }
        }
    }
}
