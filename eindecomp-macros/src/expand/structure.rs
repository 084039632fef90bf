//! A struct: its arrays, its handles, and how both are walked.

use eindecomp_core::syntax::ast::Struct;
use eindecomp_core::syntax::check::Signature;
use proc_macro2::TokenStream;
use quote::quote;

use super::Context;
use crate::shape::{Member, Variables, handles_of, once};
use crate::{others, rust};

pub fn expand(cx: &Context, structure: &Struct) -> TokenStream {
    let source = cx.source;
    let e = source.krate();
    let head = &structure.head;
    let name = rust::ident(source, &head.name);
    let (attrs, cfgs) = (
        rust::attrs(source, &head.attrs),
        rust::cfgs(source, &head.attrs),
    );
    let vis = rust::vis(source, &head.vis);
    let fields = once(structure.fields.iter().filter_map(|field| {
        let scope = (&cx.structs, &Variables::new());
        Member::read(source, scope, &field.name, &field.attrs, &field.ty)
    }));
    let idents: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let docs: Vec<_> = fields.iter().map(Member::docs).collect();

    let data = fields
        .iter()
        .map(|f| f.shape.data(source, &|shape| shape.named(source)));
    let walk = fields.iter().map(|f| f.walk(source));

    let handles = handles_of(&name);
    let handle_docs = format!("Handles on the tensors of a [`{name}`].");
    // A struct without a field still has the parameter that its handles have.
    let life = quote!('g);
    let marker = fields.is_empty().then(|| {
        quote! {
            #[doc(hidden)]
            pub graph: #e::__private::core::marker::PhantomData<&'g #e::Graph>,
        }
    });
    let handle = fields.iter().map(|f| f.shape.handles(source, &life));
    let give = fields.iter().map(|f| f.field(source));
    let keyword = rust::keyword("struct", &name);
    let right = cx.checked.structure(head.name.as_str()).is_some();
    let signature = Signature::structure(structure, cx.tree);
    let unique = others::macro_name(source, &head.name);
    let places = Signature::places_of_struct(structure);
    let known = right.then_some((&signature, &places[..]));
    let hidden = others::signature_macro(source, &unique, &head.vis, &cfgs, known);
    let consts = match right {
        true => others::signature_consts(source, &signature),
        false => quote!(&[]),
    };
    let (program, text) = (&cx.program, head.name.as_str());
    quote! {
        #hidden
        #cfgs
        #[doc(hidden)]
        #[allow(unused_imports)]
        #vis use #unique as #name;

        #attrs
        #[derive(
            #e::__private::core::clone::Clone, #e::__private::core::fmt::Debug,
            #e::__private::core::default::Default
        )]
        #[allow(dead_code, non_snake_case)]
        #vis #keyword #name { #(#docs pub #idents: #data,)* }

        #cfgs
        impl #e::Pack for #name {
            fn walk(&mut self, walker: &mut #e::__private::Walker) { #(#walk)* }
        }

        #cfgs
        impl #e::__private::Fields for #name {
            const STRUCT: #e::__private::Other =
                #e::__private::Other::new(#program, #text, #consts);
            type Handles<'g> = #handles<'g>;
        }

        #cfgs
        #[doc = #handle_docs]
        #[derive(
            #e::__private::core::clone::Clone, #e::__private::core::marker::Copy,
            #e::__private::core::fmt::Debug
        )]
        #[allow(dead_code, non_snake_case)]
        #vis #keyword #handles<'g> { #(#docs pub #idents: #handle,)* #marker }

        #cfgs
        impl<'g> #e::__private::Handles<'g> for #handles<'g> {
            fn give(self, args: &mut #e::__private::Args<'g>) -> #e::__private::Arg {
                #e::__private::Arg::Struct(#e::__private::std::vec![#(#give),*])
            }
        }
    }
}
