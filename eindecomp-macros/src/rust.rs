//! Names, paths, attributes and extents of the language as Rust's tokens, on the user's places.

use eindecomp_core::syntax::Span;
use eindecomp_core::syntax::ast::{self, Attr, AttrKind, DimKind, Vis};
use eindecomp_core::syntax::token::{Delim, Tok, Token};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};

use crate::tokens::Source;

/// Words that are no identifier unless raw.
const KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];
/// Words that cannot even be raw.
const PATH_WORDS: [&str; 4] = ["crate", "self", "super", "Self"];

/// `name` as an identifier at `span`.
pub fn word(name: &str, span: proc_macro2::Span) -> Ident {
    match name.strip_prefix("r#") {
        Some(raw) => Ident::new_raw(raw, span),
        None if KEYWORDS.contains(&name) => Ident::new_raw(name, span),
        None if PATH_WORDS.contains(&name) || name == "_" => Ident::new(&format!("{name}_"), span),
        None => Ident::new(name, span),
    }
}

/// A keyword on the place of the name it introduces: lints and notes about the item then show
/// that name, not all of the `ein!`.
pub fn keyword(keyword: &str, name: &Ident) -> Ident {
    Ident::new(keyword, name.span())
}

/// Tokens moved to the place of `at`; what their names mean stays. Errors about them then show
/// that place.
pub fn located(tokens: TokenStream, at: proc_macro2::Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut tree| {
        if let TokenTree::Group(group) = &tree {
            let mut moved = Group::new(group.delimiter(), located(group.stream(), at));
            moved.set_span(group.span());
            tree = moved.into();
        }
        tree.set_span(at.resolved_at(tree.span()));
        tree
    });
    moved.collect()
}

/// A name of the language.
pub fn ident(source: &Source, name: &ast::Ident) -> Ident {
    word(name.as_str(), source.ends(name.span).0)
}

/// A Rust path, on the place of its first use.
pub fn path(source: &Source, path: &ast::Path) -> TokenStream {
    source.once(path.to_string(), || path_here(source, path))
}

fn path_here(source: &Source, path: &ast::Path) -> TokenStream {
    let mut out = TokenStream::new();
    for (i, segment) in path.segments.iter().enumerate() {
        let span = source.ends(segment.span).0;
        if path.global || i > 0 {
            out.extend(quote_spanned!(span=> ::));
        }
        if PATH_WORDS.contains(&segment.as_str()) {
            Ident::new(segment.as_str(), span).to_tokens(&mut out);
        } else {
            ident(source, segment).to_tokens(&mut out);
        }
    }
    out
}

/// A visibility.
pub fn vis(source: &Source, vis: &Vis) -> TokenStream {
    match vis {
        Vis::Private => TokenStream::new(),
        Vis::Public(span) => {
            let span = source.ends(*span).0;
            quote_spanned!(span=> pub)
        }
        Vis::Restricted(to) => {
            let short = to
                .as_ident()
                .is_some_and(|word| PATH_WORDS.contains(&word.as_str()));
            let to = path(source, to);
            if short {
                quote!(pub(#to))
            } else {
                quote!(pub(in #to))
            }
        }
    }
}

/// Docs, and nothing else.
pub fn docs(attrs: &[Attr]) -> TokenStream {
    let docs = attrs.iter().filter_map(|attr| match &attr.kind {
        AttrKind::Doc(text) => Some(&**text),
        _ => None,
    });
    quote!(#(#[doc = #docs])*)
}

/// Docs and Rust's attributes.
pub fn attrs(source: &Source, attrs: &[Attr]) -> TokenStream {
    let mut out = docs(attrs);
    out.extend(rust_attrs(source, attrs, |_| true));
    out
}

/// The `#[cfg(…)]`s alone: they hold for everything that an item becomes.
pub fn cfgs(source: &Source, attrs: &[Attr]) -> TokenStream {
    let is_cfg = |tok: &Tok| matches!(tok, Tok::Ident(word) if &**word == "cfg");
    rust_attrs(source, attrs, |tokens| {
        tokens.first().is_some_and(|t| is_cfg(&t.tok))
    })
}

fn rust_attrs(source: &Source, attrs: &[Attr], which: impl Fn(&[Token]) -> bool) -> TokenStream {
    let kept = attrs.iter().filter_map(|attr| match &attr.kind {
        AttrKind::Rust(tokens) if which(tokens) => Some(stream(source, &mut tokens.iter())),
        _ => None,
    });
    quote!(#(#[#kept])*)
}

/// Tokens as they were, up to the bracket that closes the one before them.
fn stream(source: &Source, tokens: &mut std::slice::Iter<Token>) -> TokenStream {
    let mut out = TokenStream::new();
    while let Some(Token { tok, span }) = tokens.next() {
        let span = source.ends(*span).0;
        match tok {
            Tok::Close(_) => break,
            Tok::Open(delim) => {
                let delimiter = match delim {
                    Delim::Paren => Delimiter::Parenthesis,
                    Delim::Bracket => Delimiter::Bracket,
                    Delim::Brace => Delimiter::Brace,
                };
                let mut group = Group::new(delimiter, stream(source, tokens));
                group.set_span(span);
                group.to_tokens(&mut out);
            }
            Tok::Ident(text) if PATH_WORDS.contains(&&**text) || KEYWORDS.contains(&&**text) => {
                Ident::new(text, span).to_tokens(&mut out);
            }
            Tok::Ident(text) => word(text, span).to_tokens(&mut out),
            Tok::Literal(text) => {
                if let Ok(mut literal) = text.parse::<Literal>() {
                    literal.set_span(span);
                    literal.to_tokens(&mut out);
                }
            }
            Tok::Punct(text) => {
                let last = text.len() - 1;
                out.extend(text.chars().enumerate().map(|(i, ch)| {
                    let spacing = if i < last {
                        Spacing::Joint
                    } else {
                        Spacing::Alone
                    };
                    let mut punct = Punct::new(ch, spacing);
                    punct.set_span(span);
                    TokenTree::from(punct)
                }));
            }
            // A character of no Rust program: rustc has refused it before the macro runs.
            Tok::Unknown(_) => {}
        }
    }
    out
}

/// An extent as a `usize` expression; its names are Rust consts.
pub fn extent(source: &Source, dim: &ast::Dim) -> TokenStream {
    let at = |span: Span| source.ends(span).0;
    match &dim.kind {
        DimKind::Int(value) => {
            let mut literal = Literal::u64_unsuffixed(*value);
            literal.set_span(at(dim.span));
            literal.to_token_stream()
        }
        DimKind::Name(name) => path(source, name),
        DimKind::Paren(inner) => extent(source, inner),
        DimKind::Neg(inner) => {
            let inner = extent(source, inner);
            quote_spanned!(at(dim.span)=> (0 - #inner))
        }
        DimKind::Binary(op, left, right) => {
            let op: TokenStream = op.symbol().parse().unwrap_or_default();
            let (left, right) = (extent(source, left), extent(source, right));
            quote_spanned!(at(dim.span)=> (#left #op #right))
        }
        // Refused by the check: an array's length is a number.
        DimKind::Rest(_) => quote!(0),
    }
}
