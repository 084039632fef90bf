//! A struct: its arrays, its handles, and how both are walked.

use eindecomp_core::syntax::ast::Struct;
use proc_macro2::TokenStream;
use quote::quote;

use super::Context;
use crate::rust;
use crate::shape::{Member, handles_of, local, once};

pub fn expand(cx: &Context, structure: &Struct) -> TokenStream {
    let source = cx.source;
    let head = &structure.head;
    let name = rust::ident(source, &head.name);
    let (attrs, cfgs) = (
        rust::attrs(source, &head.attrs),
        rust::cfgs(source, &head.attrs),
    );
    let vis = rust::vis(source, &head.vis);
    let fields = once(structure.fields.iter().filter_map(|field| {
        Member::read(source, &cx.structs, &field.name, &field.attrs, &field.ty)
    }));
    let idents: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let docs: Vec<_> = fields.iter().map(Member::docs).collect();

    let data = fields.iter().map(|f| {
        f.shape.data(&|name| {
            let name = rust::ident(source, name);
            quote!(#name)
        })
    });
    let pack = fields.iter().map(Member::pack);
    let take = fields.iter().map(|f| f.take(source));

    let handles = handles_of(&name);
    let handle_docs = format!("Handles on the tensors of a [`{name}`].");
    // A struct without a field still has the parameter that its handles have.
    let life = quote!('g);
    let marker = fields.is_empty().then(|| {
        quote! {
            #[doc(hidden)]
            pub graph: ::core::marker::PhantomData<&'g ::eindecomp::Graph>,
        }
    });
    let handle = fields.iter().map(|f| f.shape.handles(source, &life));
    let give = fields.iter().map(|f| {
        let ident = &f.ident;
        f.give(source, local!(self.#ident))
    });
    let give = local! {
        fn give(self, args: &mut ::eindecomp::__private::Args<'g>) -> ::eindecomp::__private::Arg {
            ::eindecomp::__private::Arg::Struct(::std::vec![#(#give),*])
        }
    };
    quote! {
        #attrs
        #[derive(Clone, Debug)]
        #[allow(dead_code, non_snake_case)]
        #vis struct #name { #(#docs pub #idents: #data,)* }

        #cfgs
        #[allow(unused_variables)]
        impl ::eindecomp::__private::Fields for #name {
            fn pack(self, packer: &mut ::eindecomp::__private::Packer<'_>) { #(#pack)* }
            fn take(reader: &mut ::eindecomp::__private::Reader) -> Self { #name { #(#take,)* } }
        }

        #cfgs
        #[doc = #handle_docs]
        #[derive(Clone, Copy, Debug)]
        #[allow(dead_code, non_snake_case)]
        #vis struct #handles<'g> { #(#docs pub #idents: #handle,)* #marker }

        #cfgs
        #[allow(unused_variables)]
        impl<'g> ::eindecomp::__private::Handles<'g> for #handles<'g> { #give }
    }
}
