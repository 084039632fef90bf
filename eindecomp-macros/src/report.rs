//! Errors as tokens that make rustc report them on the user's own tokens.

use eindecomp_core::syntax::ast::{Attr, AttrKind, Item, Program};
use eindecomp_core::syntax::check::{Checked, Warning};
use eindecomp_core::syntax::{Code, Diag, Span};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use crate::tokens::Source;

/// What to emit for errors, in order of their place: one that has one place as a
/// `compile_error!`, one that has two as a const whose evaluation fails. The compiler reports
/// all of either kind in one run.
pub fn errors(source: &Source, diags: &[Diag]) -> TokenStream {
    let one = |diag| error(source, diag);
    diags.iter().map(one).collect()
}

/// The message as the compiler prints it behind `error: `: the code first, then the helps.
fn message(diag: &Diag) -> String {
    let Diag { code, message, .. } = diag;
    format!("{code}: {message}{}", helps(diag))
}

/// What to do, and where to read on, a line each.
pub fn helps(diag: &Diag) -> String {
    let helps: String = diag.helps().flat_map(|help| ["\nhelp: ", help]).collect();
    format!("{helps}\ndocs: {}", diag.code.page())
}

fn error(source: &Source, diag: &Diag) -> TokenStream {
    let text = message(diag);
    if diag.secondary.is_some() {
        let message = quote!(__ein::Message::new(#text));
        return failing(source, two_places(source, diag, message));
    }
    let (start, end) = source.ends(diag.primary);
    // By an absolute path, which is resolved at once, so that errors stay in order.
    let path = quote_spanned!(start=> ::core::compile_error);
    let text = quote_spanned!(end=> { #text });
    quote!(#path ! #text)
}

/// A const that fails where `body` does; in it, `__ein` is what stands behind the façade, so that
/// the path of a failing call can carry the user's place.
pub fn failing(source: &Source, body: TokenStream) -> TokenStream {
    let e = source.krate();
    quote! {
        const _: () = {
            #[allow(unused_imports)]
            use #e::__private as __ein;
            #body
        };
    }
}

/// A call that ends the evaluation with `message`, on the places of `diag`.
pub fn two_places(source: &Source, diag: &Diag, message: TokenStream) -> TokenStream {
    let fail = failure(source, diag.primary);
    let Some((place, note)) = &diag.secondary else {
        return call(source, diag.primary, fail, message);
    };
    let (start, _) = source.ends(diag.primary);
    // The name shows in the compiler's note, so it is the note.
    let name = Ident::new(&snake(note), start);
    let body = call(source, *place, fail, quote!(message));
    let here = call(source, diag.primary, quote!(#name), message);
    // A dim or const in it is upper case.
    quote!(#[allow(non_snake_case)] const fn #name(message: __ein::Message<'_>) { #body } #here)
}

/// What fails, as a path at `span`.
pub fn failure(source: &Source, span: Span) -> TokenStream {
    let (start, _) = source.ends(span);
    quote_spanned!(start=> __ein::error)
}

/// `path(args)` whose ends stand on the ends of `span`, wherever that was written.
pub fn call(source: &Source, span: Span, path: TokenStream, args: TokenStream) -> TokenStream {
    let (start, end) = source.ends(span);
    // What a name means stays, and what another program shows is not taken for a macro's.
    let mut of = start;
    let mut out = TokenStream::new();
    for mut tree in path {
        of = tree.span();
        tree.set_span(start.resolved_at(of));
        out.extend([tree]);
    }
    let mut args = Group::new(Delimiter::Parenthesis, args);
    args.set_span(end.resolved_at(of));
    out.extend([TokenTree::from(args)]);
    out
}

/// `extern fn`s without their Rust function.
pub fn kernels(program: &Program) -> Vec<Diag> {
    let blocks = program.items.iter().filter_map(|item| match item {
        Item::Block(block) => block.splits.as_ref().map(|_| &block.head),
        _ => None,
    });
    let is_kernel = |attr: &Attr| matches!(attr.kind, AttrKind::Kernel(_));
    let bare = blocks.filter(|head| !head.attrs.iter().any(is_kernel));
    let missing = bare.map(|head| {
        let text = format!("the `extern fn` `{}` has no Rust function", head.name);
        let help = "name it before the `extern fn`: `#[kernel = path::to::function]`";
        Diag::new(Code::Attribute, head.name.span, text).help(help)
    });
    missing.collect()
}

/// What rustc is to warn of. Of what nothing uses: a variable on the user's token, whose type is one that no const
/// has, since rustc would take it for a slip of the const's name. Of the rest: a deprecated const, used there.
pub fn warnings(source: &Source, checked: &Checked) -> TokenStream {
    let e = source.krate();
    let warning = |warning: &Warning| {
        let word = source.word(warning.span)?;
        if warning.unused {
            return Some(quote!(const _: fn() = || { let #word = #e::__private::OfNoConst; };));
        }
        let (name, note) = (
            Ident::new("probably_not_meant", word.span()),
            &warning.message,
        );
        Some(quote! {
            const _: () = {
                #[deprecated(note = #note)]
                #[allow(non_upper_case_globals)]
                const probably_not_meant: () = ();
                #name
            };
        })
    };
    checked.warnings.iter().filter_map(warning).collect()
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
        let krate = Ident::new("ed", proc_macro2::Span::call_site());
        let (source, _, _) = Source::read(krate, "a b c".parse().unwrap());
        errors(&source, diags).to_string()
    }

    #[test]
    fn one_place_is_a_compile_error() {
        let diag = Diag::new(Code::Syntax, Span::new(0, 2), "bad").help("do");
        let text = emitted(&[diag]);
        assert_eq!(
            text,
            r#":: core :: compile_error ! { "EIN0013: bad\nhelp: do\ndocs: eindecomp::errors::EIN0013" }"#
        );
    }

    #[test]
    fn two_places_are_two_frames() {
        let diag = Diag::new(Code::ExtentMismatch, Span::new(2, 3), "x")
            .secondary(Span::new(0, 1), "`k` is 512 here");
        let text = emitted(&[diag, Diag::new(Code::Syntax, Span::new(0, 1), "y")]);
        assert!(text.contains("use ed :: __private as __ein ;"), "{text}");
        let call = "# [allow (non_snake_case)] const fn k_is_512_here (message : __ein :: Message < '_ >) { __ein :: error (message) }";
        assert!(text.contains(call), "{text}");
        assert_eq!(text.matches("compile_error").count(), 1, "{text}");
    }

    #[test]
    fn names_are_identifiers() {
        assert_eq!(snake("512 here"), "at_512_here");
        assert_eq!(snake("fn"), "at_fn");
        assert_eq!(snake("…"), "at_");
    }
}
