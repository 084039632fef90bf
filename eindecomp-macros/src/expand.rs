//! A program as Rust items.
//!
//! The Rust types follow from the tree as written, so that items of a program with errors are
//! emitted all the same: nothing that uses them fails in turn.

mod block;
mod function;
mod program;
mod seen;
mod structure;

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::syntax::Code;
use eindecomp_core::syntax::ast::{self, AttrKind, Item, Path, Program, statements};
use eindecomp_core::syntax::check::{Checked, Mentions, Paths};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

use crate::shape::Structs;
use crate::tokens::Source;
use crate::{others, rust};

/// What all items of one `ein!` share.
struct Context<'a> {
    source: &'a Source,
    tree: &'a Program,
    checked: &'a Checked,
    mentions: &'a Mentions<'a>,
    structs: Structs<'a>,
    /// The function that gives the program.
    program: Ident,
}

/// The items of a program.
pub fn expand(
    source: &Source,
    program: &Program,
    checked: &Checked,
    mentions: &Mentions,
) -> TokenStream {
    let heads = program.items.iter().map(|item| item.head());
    let mut heads = heads.chain(program.broken.iter().map(|block| &block.head));
    let Some(first) = heads.next() else {
        return TokenStream::new();
    };
    let structs = program.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((item.head.name.as_str(), item)),
        _ => None,
    });
    let recursive = checked.errors.iter().filter(|d| d.code == Code::Recursion);
    // Items of one name cannot meet in a scope, so neither can two programs.
    let first = first.name.as_str().trim_start_matches("r#");
    let cx = Context {
        source,
        tree: program,
        checked,
        mentions,
        structs: Structs {
            local: structs.collect(),
            refused: checked.errors.iter().map(|diag| diag.primary).collect(),
            endless: recursive.map(|diag| diag.primary).collect(),
        },
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
        Item::ScalarFn(_) | Item::Agg(_) => TokenStream::new(),
    });
    let mut items: TokenStream = items.collect();
    let broken = program.broken.iter();
    let broken = broken.filter(|block| names.insert(block.head.name.as_str()));
    items.extend(broken.map(|block| block::expand(&cx, block)));
    let program = holder(&cx);
    quote!(#program #items)
}

/// The function that gives the program: its text, the values of the Rust consts in it, and what it
/// uses of other programs.
fn holder(cx: &Context) -> TokenStream {
    let (name, e) = (&cx.program, cx.source.krate());
    let text = cx.tree.to_string();
    // What depends on a struct that is not known yet has not been looked at.
    let consts = match cx.mentions.structs.is_empty() {
        true => consts(cx.checked),
        false => by_text(&cx.mentions.consts),
    };
    let consts = consts.into_iter().map(|(text, path)| {
        let path = rust::path(cx.source, path);
        quote!((#text, { const VALUE: #e::__private::core::primitive::usize = #path; VALUE as #e::__private::core::primitive::i64 }))
    });
    let lines = statements(cx.tree).map(|span| Literal::u32_unsuffixed(cx.source.line(span)));
    let others = others::values(cx.source, cx.mentions);
    let kernels = kernels(cx.tree).map(|(name, path)| {
        let (name, path) = (name.as_str(), rust::path(cx.source, path));
        quote!((#name, { const KERNEL: #e::kernel::KernelFn = #path; KERNEL }))
    });
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_snake_case)]
        fn #name() -> &'static #e::__private::Source {
            static SOURCE: #e::__private::Source =
                #e::__private::Source::new(#text, (#e::__private::core::file!(), &[#(#lines),*]), &[#(#consts),*], &[#(#kernels),*], #others);
            &SOURCE
        }
    }
}

fn by_text<'a>(paths: &'a Paths<'a>) -> BTreeMap<&'a str, &'a Path> {
    let paths = paths.iter();
    paths.map(|(text, path)| (&**text, *path)).collect()
}

/// The Rust functions of the `extern fn`s.
fn kernels(program: &Program) -> impl Iterator<Item = (&ast::Ident, &Path)> {
    program.items.iter().filter_map(|item| {
        let head = item.head();
        head.attrs.iter().find_map(|attr| match &attr.kind {
            AttrKind::Kernel(path) => Some((&head.name, path)),
            _ => None,
        })
    })
}

/// Every Rust const of the program, by its text.
pub fn consts(checked: &Checked) -> BTreeMap<&str, &Path> {
    let blocks = checked.blocks.iter().flat_map(|block| &block.consts);
    let all = blocks.chain(checked.structs.iter().flat_map(|s| &s.consts));
    all.map(|(text, path)| (&**text, path)).collect()
}
