//! The `ein!` macro of `eindecomp`. It reads as its pipeline: tokens → tree → checked tree →
//! Rust items, with errors beside them.
#![forbid(unsafe_code)]

mod expand;
mod obligations;
mod others;
mod plans;
mod report;
mod rust;
mod shape;
mod tokens;

use eindecomp_core::syntax::check::{self, Checked, Mentions, Others};
use eindecomp_core::syntax::{ast, parse};
use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// What `eindecomp::ein!` hands over: the path of `eindecomp`, then the program in braces.
#[proc_macro]
pub fn ein(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    run(input.into()).into()
}

/// The next step of a check of calls between programs, behind the macro of one that is called.
#[proc_macro]
pub fn link(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    others::link(input.into()).into()
}

/// What `eindecomp::include_plans!` hands over: the path of `eindecomp`, then a folder.
#[proc_macro]
pub fn include_plans(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    plans::include(input.into()).into()
}

fn run(input: TokenStream) -> TokenStream {
    let mut input = input.into_iter();
    let (Some(TokenTree::Ident(krate)), Some(TokenTree::Group(program))) =
        (input.next(), input.next())
    else {
        return TokenStream::new();
    };
    let tokens = program.stream();
    let (source, buffer, errors) = tokens::Source::read(krate, tokens.clone());
    let (program, more) = parse(buffer);
    let mut checked = check::check_with(&program, &Others::unseen());
    checked.errors.extend(errors.into_iter().chain(more));
    checked.errors.extend(report::kernels(&program));
    checked.errors.sort_by_key(|diag| diag.primary);
    let mentions = mentioned(&program, &checked);
    let mut out = report::errors(&source, &checked.errors);
    if checked.errors.is_empty() {
        // Otherwise not everything has been looked at yet.
        if mentions.structs.is_empty() && mentions.blocks.is_empty() {
            out.extend(report::warnings(&source, &checked));
        }
        let consts = expand::consts(&checked);
        let value = |symbol: &str| {
            let path = rust::path(&source, consts.get(symbol)?);
            Some(quote!(((#path) as __ein::core::primitive::i64)))
        };
        let all = |_: &_| true;
        out.extend(obligations::obligations(&source, &checked, &value, &all));
    }
    out.extend(expand::expand(&source, &program, &checked, &mentions));
    out.extend(others::visit(&source, &mentions, tokens));
    out
}

/// What the program mentions of others, without what is refused already.
fn mentioned<'a>(program: &'a ast::Program, checked: &Checked) -> Mentions<'a> {
    let right = |path: &ast::Path| !checked.errors.iter().any(|e| e.primary == path.span);
    let mut mentions = Mentions::of(program);
    mentions.structs.retain(|_, path| right(path));
    mentions.blocks.retain(|_, path| right(path));
    mentions
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
