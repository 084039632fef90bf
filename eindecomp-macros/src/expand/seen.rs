//! What other programs see of a block: the macro with its signature, and the value that stands for it
//! where it is called.

use eindecomp_core::syntax::ast::{self, Block, Item};
use eindecomp_core::syntax::check::{self, Signature as Text};
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::quote;

use super::Context;
use super::block::Signature;
use crate::{others, rust};

/// What stands in the block's module, before it and behind it.
pub struct Seen {
    pub inside: TokenStream,
    pub before: TokenStream,
    pub outside: TokenStream,
}

pub fn expand(cx: &Context, block: &Block, signature: &Signature) -> Seen {
    let source = cx.source;
    let Signature { name, cfgs, .. } = signature;
    let known = check::signature_of(block, cx.checked);
    let unique = others::macro_name(source, &block.head.name);
    let places = Text::places_of_block(block);
    let hidden = known.as_ref().map(|known| (known, &places[..]));
    let before = others::signature_macro(source, &unique, &block.head.vis, cfgs, hidden);
    let vis = others::macro_vis(&block.head.vis);
    let (e, called) = (source.krate(), others::constant());
    let called = quote! {
        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        pub const #called: #e::__private::Other = Called::BLOCK;
    };
    let called = rust::located(called, name.span());
    let inside = quote! {
        #[doc(hidden)]
        #[allow(unused_imports)]
        #vis use #unique as __signature;
        #[doc(hidden)]
        pub enum Called {}
        #called
    };
    let block = constant(cx, block, signature, known.as_ref());
    let params = signature.params.iter().enumerate();
    let params = params.filter_map(|(at, param)| {
        let ty = param.shape.structure()?.named(source);
        let function = others::struct_of_param(at, Span::call_site());
        Some(quote!(pub fn #function(_: #ty) {}))
    });
    let params: TokenStream = params.collect();
    let params = (!params.is_empty()).then(|| {
        quote! {
            #cfgs
            #[doc(hidden)]
            #[allow(dead_code, private_interfaces)]
            impl #name::Called { #params }
        }
    });
    Seen {
        inside,
        before,
        outside: quote!(#block #params),
    }
}

/// What stands for the block where it is called. It looks at the same of the blocks that this one
/// calls: one that calls itself by way of other programs is a cycle, which rustc reports by the
/// name of the const that leads here.
fn constant(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    known: Option<&Text>,
) -> TokenStream {
    let Signature {
        name, text, cfgs, ..
    } = signature;
    let (e, program) = (cx.source.krate(), &cx.program);
    let is_block = |path: &ast::Path| {
        let text = path.to_string();
        let mut local = cx.tree.items.iter();
        let local = local.any(|i| matches!(i, Item::Block(b) if b.head.name.as_str() == text));
        local || cx.mentions.blocks.contains_key(&text)
    };
    let called = check::called(block);
    let called = called
        .into_iter()
        .filter(|path| cx.structs.endless.is_empty() && is_block(path));
    let called: TokenStream = called
        .map(|path| {
            let value = others::value(&rust::path(cx.source, path));
            quote!(let _ = #value;)
        })
        .collect();
    let at = name.span();
    let braced = |tokens| {
        let mut group = Group::new(Delimiter::Brace, tokens);
        group.set_span(at);
        group
    };
    let consts = match known {
        Some(known) => others::signature_consts(cx.source, known),
        None => quote!(&[]),
    };
    let own = quote!(#e::__private::Other::new(#program, #text, #consts));
    let value = braced(quote!(#called #own));
    let head = rust::located(quote!(pub const BLOCK: #e::__private::Other =), at);
    let body = braced(quote!(#head #value;));
    let head = rust::located(quote!(impl #name::Called), at);
    quote! {
        #cfgs
        #[doc(hidden)]
        #head #body
    }
}

/// The module of a block that is no program by itself.
pub fn module(signature: &Signature, inside: &TokenStream) -> TokenStream {
    let Signature {
        name, vis, cfgs, ..
    } = signature;
    let keyword = rust::keyword("mod", name);
    quote! {
        #cfgs
        #[doc(hidden)]
        #[allow(dead_code, non_snake_case, missing_debug_implementations)]
        #vis #keyword #name {
            #inside
        }
    }
}
