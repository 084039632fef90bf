//! The `ein!` macro of `eindecomp`. It reads as its pipeline: tokens → tree → checked tree →
//! Rust items, with errors beside them.
#![forbid(unsafe_code)]

mod expand;
mod obligations;
mod report;
mod rust;
mod shape;
mod tokens;

use eindecomp_core::syntax::{check, parse};
use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// What `eindecomp::ein!` hands over: the path of `eindecomp`, then the program in braces.
#[proc_macro]
pub fn ein(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    run(input.into()).into()
}

fn run(input: TokenStream) -> TokenStream {
    let mut input = input.into_iter();
    let (Some(TokenTree::Ident(krate)), Some(TokenTree::Group(program))) =
        (input.next(), input.next())
    else {
        return TokenStream::new();
    };
    let (source, buffer, mut errors) = tokens::Source::read(krate, program.stream());
    let (program, more) = parse(buffer);
    errors.extend(more);
    let mut checked = check::check_program(&program);
    errors.append(&mut checked.errors);
    errors.extend(report::foreign(&checked));
    errors.sort_by_key(|diag| diag.primary);
    let mut out = report::errors(&source, &errors);
    if errors.is_empty() {
        out.extend(report::warnings(&source, &checked));
        let consts = expand::consts(&checked);
        let value = |symbol: &str| {
            let path = rust::path(&source, consts.get(symbol)?);
            Some(quote!(((#path) as __ein::core::primitive::i64)))
        };
        out.extend(obligations::obligations(&source, &checked, &value, &|_| {
            true
        }));
    }
    out.extend(expand::expand(&source, &program, &checked));
    out
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
