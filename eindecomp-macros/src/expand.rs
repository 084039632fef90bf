//! A program as Rust items.
//!
//! The Rust types follow from the tree as written, so that items of a program with errors are
//! emitted all the same: nothing that uses them fails in turn.

mod block;
mod structure;

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::syntax::ast::{Item, Path, Program};
use eindecomp_core::syntax::check::Checked;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::rust;
use crate::shape::Structs;
use crate::tokens::Source;

/// What all items of one `ein!` share.
struct Context<'a> {
    source: &'a Source,
    structs: Structs<'a>,
    /// The static that holds the program.
    program: Ident,
}

/// The items of a program.
pub fn expand(source: &Source, program: &Program, checked: &Checked) -> TokenStream {
    let Some(first) = program.items.first() else {
        return TokenStream::new();
    };
    let structs = program.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((item.head.name.as_str(), item)),
        _ => None,
    });
    // Items of one name cannot meet in a scope, so neither can two programs.
    let first = first.head().name.as_str().trim_start_matches("r#");
    let cx = Context {
        source,
        structs: structs.collect(),
        program: format_ident!("__EIN_{first}", span = Span::call_site()),
    };
    let mut names = BTreeSet::new();
    let items = program
        .items
        .iter()
        .filter(|item| names.insert(item.head().name.as_str()));
    let items = items.map(|item| match item {
        Item::Block(block) => block::expand(&cx, block),
        Item::Struct(structure) => structure::expand(&cx, structure),
        // Parts of the language alone: Rust does not call them.
        Item::ScalarFn(_) | Item::Agg(_) | Item::Extern(_) => TokenStream::new(),
    });
    let items: TokenStream = items.collect();
    let program = holder(&cx, program, checked);
    quote!(#program #items)
}

/// The static that holds the program's text and the values of the Rust consts in it.
fn holder(cx: &Context, program: &Program, checked: &Checked) -> TokenStream {
    let name = &cx.program;
    let text = program.to_string();
    let e = cx.source.krate();
    let consts = consts(checked).into_iter().map(|(text, path)| {
        let path = rust::path(cx.source, path);
        quote!((#text, { const VALUE: #e::__private::core::primitive::usize = #path; VALUE as #e::__private::core::primitive::i64 }))
    });
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_upper_case_globals)]
        static #name: #e::__private::Source =
            #e::__private::Source::new(#text, &[#(#consts),*]);
    }
}

/// Every Rust const of the program, by its text.
pub fn consts(checked: &Checked) -> BTreeMap<&str, &Path> {
    let blocks = checked.blocks.iter().flat_map(|block| &block.consts);
    let all = blocks.chain(checked.structs.iter().flat_map(|s| &s.consts));
    all.map(|(text, path)| (&**text, path)).collect()
}
