//! The Rust function of a block: it appends the block to the graph of its arguments.

use std::collections::BTreeSet;

use eindecomp_core::syntax::ast::{self, Block, Generic};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::Context;
use super::block::{Role, Signature, role};
use crate::rust;
use crate::shape::{Member, Shape, element, local, parameter, to_a_tensor};

pub fn expand(cx: &Context, block: &Block, signature: &Signature) -> TokenStream {
    let Signature {
        name,
        text,
        vis,
        params,
        results,
        ..
    } = signature;
    let source = cx.source;
    let e = source.krate();
    let attrs = rust::attrs(source, &block.head.attrs);
    let mut readable = params.iter().peekable();
    let mut holes = false;
    let mut names = BTreeSet::new();
    let declared = block.params.iter();
    let declared = declared.filter(|param| names.insert(param.name.as_str()));
    let list: Vec<TokenStream> = declared
        .map(|declared| {
            if let Some(param) = readable.next_if(|p| p.name.as_str() == declared.name.as_str()) {
                return argument(cx, param);
            }
            holes = true;
            let name = rust::ident(source, &declared.name);
            quote!(#name: impl #e::__private::core::marker::Sized)
        })
        .collect();
    let tensors = || params.iter().filter(|p| role(p) != Role::Host);
    let graph = tensors().find_map(|param| {
        let rest = to_a_tensor(&param.shape, &cx.structs, source)?;
        let name = &param.ident;
        Some(local!(#name #rest .graph()))
    });
    let whole = !holes && results.is_some();
    let dims = free_dims(block);
    let (dim_idents, dim_texts): (Vec<Ident>, Vec<&str>) = (dims.iter())
        .map(|(name, ident)| (rust::word(ident, source.ends(name.span).0), name.as_str()))
        .unzip();
    let dim_params = dim_idents.iter().filter(|_| whole);
    let dim_params =
        dim_params.map(|dim| local!(#dim: impl #e::__private::core::convert::Into<#e::Dim>,));
    let dim_params: TokenStream = dim_params.collect();
    let graph_param = (whole && graph.is_none()).then(|| local!(graph: &'g #e::Graph,));
    let graph = graph.unwrap_or_else(|| local!(graph));
    let give = params.iter().map(|param| match role(param) {
        Role::Host => {
            let ident = &param.ident;
            quote!(.value(#ident))
        }
        _ => param.give(source),
    });
    let give_dims: TokenStream = (dim_idents.iter().zip(&dim_texts))
        .map(|(ident, text)| quote!(.dim(#text, #ident)))
        .collect();
    let shapes = params
        .iter()
        .map(|p| &p.shape)
        .chain(results.iter().flatten());
    let ranks: BTreeSet<Ident> = shapes.filter_map(Shape::open).collect();
    let ranks = ranks.into_iter();
    let dtypes = signature.variables.values();
    let dtypes = dtypes.map(|variable| parameter(source, *variable));
    // The crate does not compile anyway.
    let never = quote!(#e::__private::core::unreachable!());
    let (unknown, ret, body) = match results {
        Some(results) => {
            let types = results
                .iter()
                .map(|r| r.handles(source, &TokenStream::new()));
            let program = &cx.program;
            let call = local! {
                #e::__private::Args::new(#graph) #(#give)* #give_dims.call(#program(), #text)
            };
            let values = results.iter().map(|_| local!(results.take()));
            // A tuple is two or more.
            match results.len() {
                _ if holes => (None, quote!((#(#types),*)), never),
                1 => (None, quote!(#(#types)*), quote!(#call.take())),
                _ => {
                    let body = local!(let mut results = #call; (#(#values),*));
                    (None, quote!((#(#types),*)), body)
                }
            }
        }
        // Whatever the callers make of the result will do.
        None => (Some(quote!(, R)), quote!(R), never),
    };
    let keyword = rust::keyword("fn", name);
    quote! {
        #attrs
        #[track_caller]
        #[allow(
            dead_code, non_snake_case, unused_variables,
            clippy::too_many_arguments, clippy::type_complexity
        )]
        #vis #keyword #name<'g #(, #dtypes)* #unknown #(, const #ranks: #e::__private::core::primitive::usize)*>(#graph_param #dim_params #(#list),*) -> #ret { #body }
    }
}

/// The dims in no type of a parameter, which callers from Rust give, and what they are called there.
fn free_dims(block: &Block) -> Vec<(&ast::Ident, String)> {
    let types: Vec<String> = block.params.iter().map(|p| p.ty.to_string()).collect();
    let word = |c: char| !(c.is_alphanumeric() || c == '_');
    let plain = |name: &str| name.strip_prefix("r#").unwrap_or(name).to_owned();
    let determined = |name: &str| {
        let name = plain(name);
        types.iter().any(|ty| ty.split(word).any(|w| w == name))
    };
    let dims = block.generics.iter().filter_map(|generic| match generic {
        Generic::Dim(name) => Some(name),
        _ => None,
    });
    let free = dims.filter(|name| !determined(name.as_str()));
    free.map(|name| {
        let lower = plain(name.as_str()).to_lowercase();
        match block.params.iter().any(|p| plain(p.name.as_str()) == lower) {
            true => (name, format!("dim_{lower}")),
            false => (name, lower),
        }
    })
    .collect()
}

/// A parameter of the function.
fn argument(cx: &Context, param: &Member) -> TokenStream {
    let (source, name) = (cx.source, &param.ident);
    let ty = match (role(param), &param.shape) {
        (Role::Host, Shape::Tensor { dtype, .. }) => element(source, *dtype),
        _ => param.shape.handles(source, &TokenStream::new()),
    };
    match param.shape {
        Shape::Tensor { .. } => rust::located(quote!(#name: #ty), name.span()),
        // A path is the user's own.
        _ => quote!(#name: #ty),
    }
}
