//! Recursive descent over the whole grammar: items here, the rest in submodules; `applied`, `axes`, `brackets`,
//! `choices`, `compound`, `constants`, `declared`, `foreign`, `kept`, `scatter`, `sliced`, `slips` and `whole`: what other languages write.
//!
//! An error ends the statement or item it is in, and reading goes on behind it, so that one run
//! reports several. Nesting is bounded by [`MAX_DEPTH`] and the operators of a statement by
//! [`MAX_OPERATORS`], so that neither this parser nor any later walk over the tree can exhaust the
//! stack.

mod access;
mod applied;
mod attrs;
mod axes;
mod brackets;
mod choices;
mod clauses;
mod compound;
mod constants;
mod cursor;
mod declared;
mod dim;
mod expr;
mod foreign;
mod generics;
mod item;
mod kept;
mod loops;
mod pattern;
mod reduce;
mod scatter;
mod sliced;
mod slips;
mod stmt;
mod types;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Clause, Dim, Ident, Item, Program};
use super::diag::{Code, Diag};
use super::lex::lex_at;
use super::token::{Span, Tok, TokenBuffer};

/// Brackets, branches and prefix operators may nest this deep.
pub const MAX_DEPTH: usize = 128;
/// A statement may have this many binary operators and casts.
pub const MAX_OPERATORS: usize = 512;

/// An error on its way to the statement or item that it ends.
type Parse<T> = Result<T, Box<Diag>>;

/// Reads a program; the errors are in order of their place. The tree holds whatever could be read.
pub fn parse(tokens: TokenBuffer) -> (Program, Vec<Diag>) {
    let mut parser = Parser {
        end: tokens.tokens().len(),
        buffer: tokens,
        at: 0,
        depth: 0,
        operators: 0,
        dtype_vars: Vec::new(),
        rebound: Vec::new(),
        taken: Vec::new(),
        diags: Vec::new(),
        loops: 0,
        over: Vec::new(),
        shapes: BTreeMap::new(),
        left: None,
        lets: Vec::new(),
        kept: Vec::new(),
        axes: BTreeMap::new(),
        ranges: Vec::new(),
        states: Vec::new(),
        stmt: Span::default(),
        bare_else: false,
        compares: false,
        clauses: Vec::new(),
        block: 0,
        keywords: Vec::new(),
    };
    let program = parser.program();
    let mut diags = parser.diags;
    diags.sort_by_key(|diag| diag.primary);
    (program, diags)
}

/// Reads a program from text; spans are byte offsets.
pub fn parse_text(source: &str) -> (Program, Vec<Diag>) {
    parse_text_at(source, 0)
}

/// [`parse_text`], every span shifted by `base`.
pub fn parse_text_at(source: &str, base: u32) -> (Program, Vec<Diag>) {
    let (tokens, mut diags) = lex_at(source, base);
    // Of a text whose brackets do not nest nothing else is said, unless it is known which is meant.
    let broken = tokens.broken();
    if broken.is_some() && !tokens.nests() {
        let mut diags = match base {
            0 => brackets::one_mistake(diags, source, &tokens),
            _ => diags,
        };
        diags.sort_by_key(|diag| diag.primary);
        return (Program::default(), diags);
    }
    let (program, more) = parse(tokens);
    // What follows a string or comment that is never closed was not meant to be inside.
    let follows = |diag: &Diag| diag.code == Code::Syntax && Some(diag.primary) > broken;
    let more = more.into_iter();
    diags.extend(more.filter(|diag| broken.is_none() || !follows(diag)));
    diags.sort_by_key(|diag| diag.primary);
    (program, diags)
}

struct Parser {
    buffer: TokenBuffer,
    /// Index of the next token.
    at: usize,
    /// Index past the last token.
    end: usize,
    depth: usize,
    operators: usize,
    /// Dtype variables of the item being read.
    dtype_vars: Vec<Arc<str>>,
    /// Parameters of the block that are called `mut`.
    rebound: Vec<Ident>,
    /// Names of aggregations that the item declares as something else, which is reported.
    taken: Vec<Arc<str>>,
    diags: Vec<Diag>,
    /// How many `for`s are around.
    loops: usize,
    /// The variables of the loops around.
    over: Vec<Arc<str>>,
    /// The axes of the block's tensors so far, by the names that their indices have or would have.
    shapes: BTreeMap<Arc<str>, Vec<String>>,
    /// The left side of the `let` that is being read.
    left: Option<whole::Left>,
    /// What the block's `let`s have defined so far.
    lets: Vec<Arc<str>>,
    /// Tensors of this block that keep axes which they reduce.
    kept: Vec<kept::Kept>,
    /// The axes of this block's parameters, as declared.
    axes: BTreeMap<Arc<str>, Vec<Dim>>,
    /// Ranges of indices of this statement, which stand in an access.
    ranges: Vec<(Arc<str>, Dim)>,
    /// The block's states.
    states: Vec<Arc<str>>,
    /// Where the statement begins that is being read.
    stmt: Span,
    /// Is an `else` behind an access that of something around it?
    bare_else: bool,
    /// Can a `=` only be meant as `==`?
    compares: bool,
    /// Clauses in the body of the block, which are reported.
    clauses: Vec<Clause>,
    /// The brace that opens the block.
    block: usize,
    /// Rust's keywords that the program has as names, which is reported.
    keywords: Vec<Arc<str>>,
}

impl Parser {
    fn program(&mut self) -> Program {
        let mut program = Program::default();
        while self.at < self.end {
            if self.is(";") {
                self.stray_semicolon();
                continue;
            }
            let attrs = self.attrs(attrs::AttrPlace::Item);
            let start = self.at;
            if start == self.end {
                let found = self.unexpected::<()>("an item after these attributes");
                self.report(found);
                break;
            }
            self.dtype_vars.clear();
            self.rebound.clear();
            self.taken.clear();
            self.operators = 0;
            let item: Parse<Item> = self.item(attrs.clone());
            match item {
                Ok(item) => program.items.push(item),
                Err(diag) => {
                    self.diags.push(*diag);
                    program.lost.extend(self.item_name(start));
                    let after = self.after_item(start);
                    program.broken.extend(self.broken(attrs, start));
                    self.at = after;
                }
            }
        }
        program
    }

    /// The name of the item that starts at `start`, as far as known.
    fn item_name(&self, start: usize) -> Option<Arc<str>> {
        let word = |at: usize| match self.peek_at(at) {
            Some(Tok::Ident(word)) => Some(word.clone()),
            _ => None,
        };
        let mut at = start;
        while !matches!(word(at).as_deref(), Some("fn" | "struct" | "agg")) {
            at = self.buffer.after_tree(at);
            if at >= self.at {
                return None;
            }
        }
        word(at + 1).filter(|_| self.is_name_at(at + 1))
    }

    /// Where reading goes on after an error in the item that starts at `start`.
    fn after_item(&self, start: usize) -> usize {
        let mut at = start;
        while let Some(token) = self.buffer.get(at) {
            match &token.tok {
                Tok::Punct(";") => return at + 1,
                Tok::Open(super::token::Delim::Brace) => return self.buffer.after_tree(at),
                Tok::Punct("#") if at > start && at >= self.at => return at,
                Tok::Ident(word)
                    if at > start
                        && at >= self.at
                        && matches!(&**word, "pub" | "fn" | "struct" | "extern" | "agg") =>
                {
                    return at;
                }
                _ => at = self.buffer.after_tree(at),
            }
        }
        self.end
    }
}

#[cfg(test)]
mod tests;
