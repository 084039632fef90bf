//! Errors as tokens that make rustc report them on the user's own tokens.

use eindecomp_core::syntax::{Diag, Span};
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use crate::tokens::Source;

/// What to emit for errors, in order of their place.
///
/// An error with two places needs a const's evaluation, which rustc does not reach when a
/// `compile_error!` stands beside it; so either all errors are consts, or none is.
pub fn report(source: &Source, diags: &[Diag]) -> TokenStream {
    let two_places = diags.iter().any(|diag| diag.secondary.is_some());
    let one = if two_places {
        as_const
    } else {
        as_compile_error
    };
    diags.iter().map(|diag| one(source, diag)).collect()
}

/// The message, its code and its help, as the compiler prints them behind `error: `.
fn message(diag: &Diag) -> String {
    let mut text = format!("{}: {}", diag.code, diag.message);
    if let Some(help) = &diag.help {
        text.push_str("\nhelp: ");
        text.push_str(help);
    }
    text
}

fn as_compile_error(source: &Source, diag: &Diag) -> TokenStream {
    let (start, end) = source.ends(diag.primary);
    let text = message(diag);
    let path = quote_spanned!(start=> ::core::compile_error);
    let call = quote_spanned!(end=> { #text });
    quote!(#path ! #call)
}

/// A const whose evaluation fails: rustc shows the call, which stands on the primary tokens, and
/// the body of the function called, which stands on the secondary ones.
fn as_const(source: &Source, diag: &Diag) -> TokenStream {
    let text = message(diag);
    let fail =
        |span: Span| spanned_call(source, span, quote!(::eindecomp::__private::error), &text);
    let Some((place, note)) = &diag.secondary else {
        let call = fail(diag.primary);
        return quote!(const _: () = #call;);
    };
    let (start, end) = source.ends(diag.primary);
    // The name shows in the compiler's note, so it is the note.
    let name = Ident::new(&snake(note), start);
    let body = fail(*place);
    let args = quote_spanned!(end=> ());
    quote! {
        const _: () = {
            const fn #name() { #body }
            #name #args
        };
    }
}

/// `path(text)` whose first and last tokens stand on the ends of `span`.
fn spanned_call(source: &Source, span: Span, path: TokenStream, text: &str) -> TokenStream {
    let (start, end) = source.ends(span);
    let path: TokenStream = path
        .into_iter()
        .map(|mut tree| {
            tree.set_span(start);
            tree
        })
        .collect();
    let args = quote_spanned!(end=> (#text));
    quote!(#path #args)
}

/// A note as an identifier: `index k is 512 here` → `index_k_is_512_here`.
fn snake(note: &str) -> String {
    let mut name = String::new();
    for ch in note.chars() {
        if ch.is_ascii_alphanumeric() {
            name.push(ch);
        } else if !name.ends_with('_') && !name.is_empty() {
            name.push('_');
        }
    }
    let name = name.trim_end_matches('_');
    // A leading digit or a keyword would be no identifier.
    match name.chars().next() {
        Some(ch) if ch.is_ascii_alphabetic() && name.contains('_') => name.to_owned(),
        _ => format!("at_{name}"),
    }
}

#[cfg(test)]
mod tests {
    use eindecomp_core::syntax::Code;

    use super::*;

    fn emitted(diags: &[Diag]) -> String {
        let (source, _, _) = Source::read("a b c".parse().unwrap());
        report(&source, diags).to_string()
    }

    #[test]
    fn one_place_is_a_compile_error() {
        let diag = Diag::new(Code::Syntax, Span::new(0, 2), "bad").help("do");
        let text = emitted(&[diag]);
        assert_eq!(
            text,
            r#":: core :: compile_error ! { "EIN0013: bad\nhelp: do" }"#
        );
    }

    #[test]
    fn two_places_are_two_frames() {
        let diag = Diag::new(Code::ExtentMismatch, Span::new(2, 3), "x")
            .secondary(Span::new(0, 1), "`k` is 512 here");
        let text = emitted(&[diag, Diag::new(Code::Syntax, Span::new(0, 1), "y")]);
        assert!(text.contains("const fn k_is_512_here ()"), "{text}");
        assert!(!text.contains("compile_error"), "{text}");
    }

    #[test]
    fn names_are_identifiers() {
        assert_eq!(snake("512 here"), "at_512_here");
        assert_eq!(snake("fn"), "at_fn");
        assert_eq!(snake("…"), "at_");
    }
}
