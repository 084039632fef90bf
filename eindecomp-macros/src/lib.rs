//! The `ein!` macro of `eindecomp`. It reads as its pipeline: tokens → tree → checked tree →
//! Rust items, with errors beside them.
#![forbid(unsafe_code)]

mod expand;
mod report;
mod rust;
mod shape;
mod tokens;

use eindecomp_core::syntax::{check, parse};
use proc_macro::TokenStream;

/// Blocks of tensor code, checked when the crate is compiled.
///
/// Each block `f` becomes a function `f` on tensor handles, which appends the block to a graph,
/// and a module `f` that holds the block as a program by itself: `f::graph()` and the types
/// `f::Dims`, `f::Inputs`, `f::Weights` and `f::Outputs`. Each struct `S` becomes a struct `S` of
/// arrays and a struct `STensors` of handles.
#[proc_macro]
pub fn ein(input: TokenStream) -> TokenStream {
    run(input.into()).into()
}

fn run(input: proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    let (source, buffer, mut errors) = tokens::Source::read(input);
    let (program, more) = parse(buffer);
    errors.extend(more);
    let mut checked = check::check_program(&program);
    errors.append(&mut checked.errors);
    errors.extend(report::foreign(&checked));
    errors.extend(report::ranks(&program));
    errors.sort_by_key(|diag| diag.primary);
    let mut out = report::errors(&source, &errors);
    if errors.is_empty() {
        out.extend(report::warnings(&source, &checked));
        out.extend(report::obligations(&source, &checked));
    }
    out.extend(expand::expand(&source, &program, &checked));
    out
}

#[cfg(test)]
mod tests;
