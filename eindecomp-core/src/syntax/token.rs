//! Tokens with spans, and the balanced buffer that the parser reads.
//!
//! Both sources of tokens, Rust's `TokenStream` and text, feed the same [`Builder`]: it fuses
//! multi-character operators and balances delimiters, so that the parser sees no difference.

use std::fmt;
use std::sync::Arc;

use super::diag::{Code, Diag, Fix};

/// A place in the source, opaque to the language: byte offsets of a text, or indices into the
/// macro's flat list of Rust tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First unit covered.
    pub start: u32,
    /// One past the last unit covered.
    pub end: u32,
}

impl Span {
    /// The span `start..end`.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// The smallest span that covers both.
    pub fn join(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Does it cover all of the other?
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Have they a token in common?
    pub fn overlaps(self, other: Span) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}..{}", self.start, self.end)
    }
}

/// A bracket's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delim {
    /// `( )`
    Paren,
    /// `[ ]`
    Bracket,
    /// `{ }`
    Brace,
}

impl Delim {
    /// The opening bracket's text.
    pub fn open(self) -> &'static str {
        match self {
            Delim::Paren => "(",
            Delim::Bracket => "[",
            Delim::Brace => "{",
        }
    }

    /// The closing bracket's text.
    pub fn close(self) -> &'static str {
        match self {
            Delim::Paren => ")",
            Delim::Bracket => "]",
            Delim::Brace => "}",
        }
    }
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tok {
    /// An identifier or keyword, as written.
    Ident(Arc<str>),
    /// A literal, as written: numbers, strings, characters.
    Literal(Arc<str>),
    /// An operator of one or two characters.
    Punct(&'static str),
    /// An opening bracket.
    Open(Delim),
    /// A closing bracket.
    Close(Delim),
    /// A character that no program contains.
    Unknown(char),
}

impl fmt::Display for Tok {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tok::Ident(text) | Tok::Literal(text) => f.write_str(text),
            Tok::Punct(text) => f.write_str(text),
            Tok::Open(delim) => f.write_str(delim.open()),
            Tok::Close(delim) => f.write_str(delim.close()),
            Tok::Unknown(ch) => write!(f, "{ch}"),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// What it is.
    pub tok: Tok,
    /// Where it is.
    pub span: Span,
}

const SINGLE: [&str; 22] = [
    "+", "-", "*", "/", "%", "=", "<", ">", "!", ":", ";", ",", ".", "#", "|", "&", "^", "~", "@",
    "?", "$", "'",
];
const FUSED: [&str; 10] = ["::", "..", "->", "=>", "==", "!=", "<=", ">=", "&&", "||"];

/// Characters of mathematics, and what they mean. Rust has none of them: they stand in texts only.
const SYMBOLS: &[(&str, &str)] = &[
    ("×·⋅∙∗⊙⊗•", "*"),
    ("÷∕⁄", "/"),
    ("−–—", "-"),
    ("≤⩽≦", "<="),
    ("≥⩾≧", ">="),
    ("≠", "!="),
    ("≡≟", "=="),
    ("→⟶⇒⟹", "->"),
    ("∧⋀", "&&"),
    ("∨⋁", "||"),
    ("¬", "!"),
    ("∞", "inf"),
    ("∈∊", "in"),
    ("∑", "sum"),
    ("∏", "prod"),
    ("…", ".."),
    ("，、", ","),
    ("；", ";"),
    ("：", ":"),
];

/// Powers as mathematics writes them, by their exponents.
const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Tokens in order, with balanced delimiters, each of which knows its partner.
#[derive(Clone, Debug, Default)]
pub struct TokenBuffer {
    tokens: Vec<Token>,
    partner: Vec<usize>,
    end: Span,
    broken: Option<Span>,
    /// Brackets as they stand in the source.
    brackets: Vec<(Tok, Span)>,
}

impl TokenBuffer {
    /// All tokens, in order.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The token at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index)
    }

    /// The place of the token at `index`; past the end, the end of the source.
    pub fn span(&self, index: usize) -> Span {
        self.tokens.get(index).map_or(self.end, |token| token.span)
    }

    /// The index of the bracket that closes (or opens) the bracket at `index`; any other token is
    /// its own partner.
    pub fn partner(&self, index: usize) -> usize {
        self.partner.get(index).copied().unwrap_or(index)
    }

    /// The first place from which on nothing need be as it seems: a bracket, string or comment
    /// that is not closed, or a bracket that closes nothing.
    pub fn broken(&self) -> Option<Span> {
        self.broken
    }

    /// The brackets as they stand in the source, whether they nest or not.
    pub fn brackets(&self) -> &[(Tok, Span)] {
        &self.brackets
    }

    /// Do the brackets of the source nest?
    pub fn nests(&self) -> bool {
        let mut open = Vec::new();
        let fits = self.brackets.iter().all(|(tok, _)| match tok {
            Tok::Open(delim) => {
                open.push(*delim);
                true
            }
            Tok::Close(delim) => open.pop() == Some(*delim),
            _ => true,
        });
        fits && open.is_empty()
    }

    /// Takes the `>` off the `>=` at `index`, which becomes `=`.
    pub fn split_angle(&mut self, index: usize) {
        if let Some(token) = self
            .tokens
            .get_mut(index)
            .filter(|t| t.tok == Tok::Punct(">="))
        {
            token.tok = Tok::Punct("=");
            token.span.start = token.span.end.saturating_sub(1).max(token.span.start);
        }
    }

    /// Makes brackets of the shape `delim` of those that open at `index`.
    pub fn set_delim(&mut self, index: usize, delim: Delim) {
        let close = self.partner(index);
        for (at, tok) in [(index, Tok::Open(delim)), (close, Tok::Close(delim))] {
            if let Some(token) = self.tokens.get_mut(at) {
                token.tok = tok;
            }
        }
    }

    /// The index after the token tree that starts at `index`.
    pub fn after_tree(&self, index: usize) -> usize {
        self.partner(index).max(index) + 1
    }
}

/// A bracket that was closed for want of its own.
#[derive(Debug)]
struct Unclosed {
    delim: Delim,
    /// The error that says so.
    diag: usize,
    /// The bracket that was found instead.
    at: Span,
}

/// Collects tokens into a [`TokenBuffer`].
#[derive(Debug, Default)]
pub struct Builder {
    buffer: TokenBuffer,
    open: Vec<usize>,
    joint: bool,
    diags: Vec<Diag>,
    unclosed: Vec<Unclosed>,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Self {
        Builder::default()
    }

    fn push(&mut self, tok: Tok, span: Span) {
        self.joint = false;
        self.buffer.partner.push(self.buffer.tokens.len());
        self.buffer.tokens.push(Token { tok, span });
    }

    /// Adds an identifier or keyword.
    pub fn ident(&mut self, text: &str, span: Span) {
        self.push(Tok::Ident(text.into()), span);
    }

    /// Adds a literal, as written.
    pub fn literal(&mut self, text: &str, span: Span) {
        self.push(Tok::Literal(text.into()), span);
    }

    /// Adds one operator character; `joint` says that another follows without a gap.
    pub fn punct(&mut self, ch: char, joint: bool, span: Span) {
        let mut utf8 = [0; 4];
        let text: &str = ch.encode_utf8(&mut utf8);
        if self.joint
            && let Some(Token {
                tok: Tok::Punct(left),
                span: place,
            }) = self.buffer.tokens.last_mut()
            && let Some(both) = FUSED.iter().find(|f| f.strip_prefix(*left) == Some(text))
        {
            *left = both;
            *place = place.join(span);
            self.joint = false;
            return;
        }
        match SINGLE.iter().find(|s| **s == text) {
            Some(single) => self.push(Tok::Punct(single), span),
            None => self.symbol(ch, span),
        }
        self.joint = joint;
    }

    /// Adds what a character of mathematics means, which is reported.
    fn symbol(&mut self, ch: char, span: Span) {
        if let Some(power) = SUPERSCRIPTS.iter().position(|power| *power == ch) {
            self.push(Tok::Punct("^"), span);
            return self.literal(&power.to_string(), span);
        }
        let Some((_, text)) = SYMBOLS.iter().find(|(symbols, _)| symbols.contains(ch)) else {
            return self.push(Tok::Unknown(ch), span);
        };
        let diag = Diag::new(Code::Syntax, span, format!("`{ch}` is written `{text}`"));
        let fix = Fix::replace(span, *text, "write {}");
        self.diags.push(diag.fix(fix));
        let mut puncts = SINGLE.iter().chain(&FUSED);
        self.push(
            match puncts.find(|punct| *punct == text) {
                Some(punct) => Tok::Punct(punct),
                None => Tok::Ident((*text).into()),
            },
            span,
        );
    }

    /// Adds an opening bracket.
    pub fn open(&mut self, delim: Delim, span: Span) {
        self.buffer.brackets.push((Tok::Open(delim), span));
        self.open.push(self.buffer.tokens.len());
        self.push(Tok::Open(delim), span);
    }

    /// Adds a closing bracket. One that closes nothing is reported and dropped; brackets left open
    /// inside are reported and closed.
    pub fn close(&mut self, delim: Delim, span: Span) {
        self.buffer.brackets.push((Tok::Close(delim), span));
        let matches = |b: &TokenBuffer, at: usize| b.tokens[at].tok == Tok::Open(delim);
        if !self.open.iter().any(|&at| matches(&self.buffer, at)) {
            return self.close_other(delim, span);
        }
        while let Some(at) = self.open.pop() {
            if matches(&self.buffer, at) {
                self.link(at, delim, span);
                return;
            }
            self.close_missing(at, span);
        }
    }

    /// A closing bracket, none of whose kind is open: it closes another one, or nothing.
    fn close_other(&mut self, found: Delim, span: Span) {
        let innermost = self.open.last().map(|&at| (at, &self.buffer.tokens[at]));
        match innermost {
            Some((
                at,
                &Token {
                    tok: Tok::Open(open),
                    span: place,
                },
            )) if open != Delim::Brace => {
                let (open, close) = (open.open(), open.close());
                let text = format!("expected `{close}`, found `{}`", found.close());
                let diag = Diag::new(Code::Syntax, span, text);
                let diag = diag.secondary(place, format!("`{open}` is opened here"));
                self.diags
                    .push(diag.fix(Fix::replace(span, close, "write {}")));
                self.open.pop();
                let delim = match self.buffer.tokens[at].tok {
                    Tok::Open(delim) => delim,
                    _ => found,
                };
                self.link(at, delim, span);
            }
            _ if self.is_mistyped(found) => {
                let Some(Unclosed { delim, diag, at }) = self.unclosed.pop() else {
                    return;
                };
                let (open, close) = (delim.open(), delim.close());
                let place = self.diags[diag].primary;
                let text = format!("expected `{close}`, found `{}`", found.close());
                let mistyped = Diag::new(Code::Syntax, at, text);
                let mistyped = mistyped.secondary(place, format!("`{open}` is opened here"));
                self.diags[diag] = mistyped.fix(Fix::replace(at, close, "write {}"));
            }
            _ if self.unclosed.last().is_some_and(|u| u.delim == found) => {
                // It was to close what was closed for want of it.
                let Some(Unclosed { diag: at, .. }) = self.unclosed.pop() else {
                    return;
                };
                let help = "brackets are closed in the opposite order of their opening";
                self.diags[at].help = Some(help.into());
            }
            _ => {
                let text = format!("unexpected closing `{}`", found.close());
                self.error(Diag::new(Code::Syntax, span, text));
            }
        }
    }

    /// Is the bracket that was closed last closed once more here, as in `f(x[i))`? Then the first time the
    /// one inside of it was meant.
    fn is_mistyped(&self, found: Delim) -> bool {
        let last = self.buffer.tokens.last();
        let closed = last.filter(|last| last.tok == Tok::Close(found));
        let inner = self.unclosed.last().filter(|inner| inner.delim != found);
        closed
            .zip(inner)
            .is_some_and(|(last, inner)| last.span == inner.at)
    }

    fn link(&mut self, at: usize, delim: Delim, span: Span) {
        let close = self.buffer.tokens.len();
        self.push(Tok::Close(delim), span);
        self.buffer.partner[close] = at;
        self.buffer.partner[at] = close;
    }

    fn close_missing(&mut self, at: usize, span: Span) {
        let Token {
            tok: Tok::Open(delim),
            span: open,
        } = self.buffer.tokens[at]
        else {
            return;
        };
        let text = format!("this `{}` is never closed", delim.open());
        let diag = self.diags.len();
        self.unclosed.push(Unclosed {
            delim,
            diag,
            at: span,
        });
        self.error(Diag::new(Code::Syntax, open, text));
        self.link(at, delim, Span::new(span.start, span.start));
    }

    /// Adds a problem that is read over.
    pub fn slip(&mut self, diag: Diag) {
        self.diags.push(diag);
    }

    /// Adds a problem behind which nothing need be as it seems.
    pub fn error(&mut self, diag: Diag) {
        let first = self
            .buffer
            .broken
            .map_or(diag.primary, |b| b.min(diag.primary));
        self.buffer.broken = Some(first);
        self.diags.push(diag);
    }

    /// The balanced buffer, `end` being the place just past the source, and what was wrong.
    pub fn finish(mut self, end: Span) -> (TokenBuffer, Vec<Diag>) {
        while let Some(at) = self.open.pop() {
            self.close_missing(at, end);
        }
        self.buffer.end = end;
        (self.buffer, self.diags)
    }
}
