//! Rust's tokens to the language's: the flat list, and the way back from its spans to Rust's.

use std::cell::RefCell;
use std::collections::BTreeMap;

use eindecomp_core::syntax::token::{Builder, Delim, Span, TokenBuffer};
use eindecomp_core::syntax::{Code, Diag};
use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};

/// Groups may nest this deep; the parser's own limit is lower.
const MAX_GROUPS: usize = 400;

/// The tokens of one `ein!`. A span of the language counts Rust tokens in this list.
pub struct Source {
    krate: Ident,
    spans: Vec<proc_macro2::Span>,
    /// Identifiers with their places, in order.
    words: Vec<(u32, Ident)>,
    others: Vec<Elsewhere>,
    paths: RefCell<BTreeMap<String, TokenStream>>,
}

/// The signature of another program's block or struct: a text whose spans stand behind those of
/// the tokens.
pub struct Elsewhere {
    /// The first of its spans.
    pub base: u32,
    /// How many bytes it has.
    pub length: u32,
    /// What its program can show of it, and where that is; the first is its name.
    pub places: Vec<(Span, Ends)>,
}

/// Where the first and the last token of something stand.
pub type Ends = (proc_macro2::Span, proc_macro2::Span);

impl Source {
    /// Flattens a token stream; the errors are those of its nesting. `krate` is the path of the
    /// façade, whatever its user calls it.
    pub fn read(krate: Ident, stream: TokenStream) -> (Source, TokenBuffer, Vec<Diag>) {
        let mut flat = Flat {
            spans: Vec::new(),
            words: Vec::new(),
            out: Builder::new(),
        };
        flat.stream(stream, 0);
        let end = flat.spans.len() as u32;
        let (buffer, diags) = std::mem::take(&mut flat.out).finish(Span::new(end, end));
        let Flat { spans, words, .. } = flat;
        let source = Source {
            krate,
            spans,
            words,
            others: Vec::new(),
            paths: RefCell::default(),
        };
        (source, buffer, diags)
    }

    /// The façade: what is emitted names things by paths from here alone, since every other name
    /// may mean something else where the user is.
    pub fn krate(&self) -> &Ident {
        &self.krate
    }

    /// The tokens of a path, always those of its first use: of one that leads nowhere rustc then tells
    /// once, since it prints what is the same in words and place a single time.
    pub fn once(&self, path: String, made: impl FnOnce() -> TokenStream) -> TokenStream {
        let mut paths = self.paths.borrow_mut();
        paths.entry(path).or_insert_with(made).clone()
    }

    /// Where the spans of one more signature may begin.
    pub fn end(&self) -> u32 {
        let last = self.others.last().map(|other| other.base + other.length);
        last.unwrap_or(self.spans.len() as u32) + 1
    }

    /// Adds a signature.
    pub fn add(&mut self, other: Elsewhere) {
        self.others.push(other);
    }

    /// The identifier that `span` starts with.
    pub fn word(&self, span: Span) -> Option<&Ident> {
        let at = self.words.binary_search_by_key(&span.start, |(at, _)| *at);
        at.ok().map(|at| &self.words[at].1)
    }

    /// The line of the file in which `span` starts; 0 outside of a compiler.
    pub fn line(&self, span: Span) -> u32 {
        let at = self.ends(span).0;
        let line = || u32::try_from(at.unwrap().line()).unwrap_or(u32::MAX);
        proc_macro::is_available().then(line).unwrap_or(0)
    }

    /// Rust's spans of the first and last token that `span` covers; past the end, of the last
    /// token there is. In the signature of another program, of the nearest place.
    pub fn ends(&self, span: Span) -> Ends {
        let mut others = self.others.iter();
        let around = |o: &&Elsewhere| o.base <= span.start && span.start <= o.base + o.length;
        if let Some(ends) = others.find(around).and_then(|other| other.ends(span)) {
            return ends;
        }
        let at = |index: usize| {
            let last = self.spans.len().saturating_sub(1);
            self.spans
                .get(index.min(last))
                .copied()
                .unwrap_or_else(proc_macro2::Span::call_site)
        };
        let start = span.start as usize;
        (
            at(start),
            at((span.end as usize).saturating_sub(1).max(start)),
        )
    }
}

impl Elsewhere {
    fn ends(&self, span: Span) -> Option<Ends> {
        let places = self.places.iter();
        let around = places.filter(|(p, _)| p.contains(span));
        let nearest = around.min_by_key(|(p, _)| p.end - p.start);
        nearest.or(self.places.first()).map(|(_, ends)| *ends)
    }
}

struct Flat {
    spans: Vec<proc_macro2::Span>,
    words: Vec<(u32, Ident)>,
    out: Builder,
}

impl Flat {
    /// The language's span of a Rust token, which is added to the list.
    fn span(&mut self, span: proc_macro2::Span) -> Span {
        let at = self.spans.len() as u32;
        self.spans.push(span);
        Span::new(at, at + 1)
    }

    fn stream(&mut self, stream: TokenStream, depth: usize) {
        for tree in stream {
            match tree {
                TokenTree::Ident(ident) => {
                    let span = self.span(ident.span());
                    self.out.ident(&ident.to_string(), span);
                    self.words.push((span.start, ident));
                }
                TokenTree::Punct(punct) => {
                    let span = self.span(punct.span());
                    self.out
                        .punct(punct.as_char(), punct.spacing() == Spacing::Joint, span);
                }
                TokenTree::Literal(literal) => {
                    let span = self.span(literal.span());
                    let text = literal.to_string();
                    // Another macro may have made a negative literal; source has a sign before it.
                    match text.strip_prefix('-') {
                        Some(magnitude) => {
                            self.out.punct('-', false, span);
                            self.out.literal(magnitude, span);
                        }
                        None => self.out.literal(&text, span),
                    }
                }
                TokenTree::Group(group) => self.group(group, depth + 1),
            }
        }
    }

    fn group(&mut self, group: Group, depth: usize) {
        if depth > MAX_GROUPS {
            let span = self.span(group.span());
            let text = format!("this is nested over {MAX_GROUPS} levels deep");
            self.out.error(Diag::new(Code::TooDeep, span, text));
            return;
        }
        let delim = match group.delimiter() {
            Delimiter::Parenthesis => Some(Delim::Paren),
            Delimiter::Bracket => Some(Delim::Bracket),
            Delimiter::Brace => Some(Delim::Brace),
            // An argument of a surrounding macro: `$x:expr` groups as if in parentheses, while a
            // path or a single token stands for itself.
            Delimiter::None => has_operator(&group).then_some(Delim::Paren),
        };
        let Some(delim) = delim else {
            return self.stream(group.stream(), depth);
        };
        let open = self.span(group.span_open());
        self.out.open(delim, open);
        self.stream(group.stream(), depth);
        let close = self.span(group.span_close());
        self.out.close(delim, close);
    }
}

/// An operator other than `::` and `.` stands in the group itself.
fn has_operator(group: &Group) -> bool {
    group.stream().into_iter().any(
        |tree| matches!(tree, TokenTree::Punct(punct) if !matches!(punct.as_char(), ':' | '.')),
    )
}

#[cfg(test)]
mod tests {
    use eindecomp_core::syntax::{lex::lex, parse};

    use super::*;

    fn facade() -> Ident {
        Ident::new("eindecomp", proc_macro2::Span::call_site())
    }

    /// The same program from Rust's tokens and from text.
    fn same(source: &str) {
        let stream: TokenStream = source.parse().unwrap();
        let (_, buffer, diags) = Source::read(facade(), stream);
        assert!(diags.is_empty(), "{diags:?}");
        let (text, _) = lex(source);
        let bare = |buffer: &TokenBuffer| -> Vec<_> {
            buffer
                .tokens()
                .iter()
                .map(|token| token.tok.clone())
                .collect()
        };
        assert_eq!(bare(&buffer), bare(&text));
        assert_eq!(parse(buffer).0.to_string(), parse(text).0.to_string());
    }

    #[test]
    fn rust_tokens_and_text_agree() {
        same(
            "fn f<dim ..L, dim N>(x: f32[..L, N]) -> f32[..L] where N >= 1 {
            let y[..l] = max[j where j <= 2 && !(x[..l, j] == -1.5e-3)] x[..l, a::b + j];
            y }",
        );
        same("#[doc = r\" hi\"] pub(crate) fn g(x) = if x != 0.0 { 1. } else { -inf };");
    }

    #[test]
    fn spans_lead_back() {
        let (source, buffer, _) = Source::read(facade(), "a >= (b)".parse().unwrap());
        assert_eq!(buffer.span(1), Span::new(1, 3));
        assert_eq!(source.spans.len(), 6);
        source.ends(Span::new(90, 95));
        Source::read(facade(), TokenStream::new())
            .0
            .ends(Span::default());
    }

    #[test]
    fn a_surrounding_macros_expression_keeps_its_grouping() {
        let group = |text: &str| Group::new(Delimiter::None, text.parse().unwrap());
        assert!(has_operator(&group("a + b")));
        assert!(!has_operator(&group("a::b")));
        assert!(!has_operator(&group("f32")));
    }
}
