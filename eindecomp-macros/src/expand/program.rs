//! The module of a block as a program by itself, and its impls outside of it: inside of a function, a
//! module does not see what stands around it.

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::syntax::ast::{self, Block, Generic};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use super::Context;
use super::block::{Role, Signature, role};
use crate::rust;
use crate::shape::{Member, Shape, element};

pub fn expand(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    hidden: &TokenStream,
) -> TokenStream {
    let Signature {
        name,
        text,
        vis,
        cfgs,
        ..
    } = signature;
    let e = cx.source.krate();
    let of = |wanted: Role| {
        let params = signature.params.iter().filter(move |p| role(p) == wanted);
        params.collect::<Vec<&Member>>()
    };
    let results = results(cx, block, signature);
    let weights = of(Role::Weight);
    let record =
        |kind, docs, members: &[&Member]| record(cx, block, signature, kind, docs, members);
    let records = [
        record("Inputs", "What a run is given.", &of(Role::Data)),
        record("Weights", "What stays across runs.", &weights),
        record(
            "State",
            "What stays across runs and is stored into.",
            &of(Role::State),
        ),
        record(
            "Outputs",
            "What a run gives.",
            &results.iter().collect::<Vec<_>>(),
        ),
    ];
    let dims = dims(cx, block);
    let structs = structs(cx, block, signature);
    let reader = from_safetensors(cx, block, signature, &weights);
    let graph = graph(cx, block, signature, &of(Role::Host));

    let (bounds, names) = signature.parameters(cx, block, |_| true);
    let model = match names.is_empty() {
        true => quote!(
            enum Model {}
        ),
        false => {
            let dtypes = dtypes(cx, block);
            quote! {
                struct Model #bounds(#e::__private::core::marker::PhantomData<fn() -> (#(#dtypes,)*)>);
            }
        }
    };
    let docs = format!("The block [`{text}`](fn@{text}) as a program by itself.");
    let keyword = rust::keyword("mod", name);
    let types = records.iter().map(|record| &record.inside);
    let parts = records.iter().map(|record| {
        let Record { kind, ty, .. } = record;
        quote!(type #kind = #ty;)
    });
    let (inner, outer) = structs.unzip();
    let behind = records.iter().filter_map(|record| record.outside.as_ref());
    let behind = behind.chain(&outer).chain(&reader);
    quote! {
        #cfgs
        #[doc = #docs]
        #[allow(
            dead_code, non_snake_case, private_interfaces, private_bounds,
            missing_debug_implementations
        )]
        #vis #keyword #name {
            /// The program's type.
            pub #model
            #graph
            #dims
            #(#types)*
            #inner
            #hidden
        }
        #cfgs
        impl #bounds #e::Model for #name::Model #names {
            type Dims = #name::Dims;
            #(#parts)*
        }
        #(#cfgs #behind)*
    }
}

/// The dtype variables, each once.
fn dtypes(cx: &Context, block: &Block) -> Vec<Ident> {
    let mut seen = BTreeSet::new();
    let names = block.generics.iter().filter_map(|generic| match generic {
        Generic::Dtype(name, _) => Some(name),
        _ => None,
    });
    let names = names.filter(|name| seen.insert(name.as_str()));
    names.map(|name| rust::ident(cx.source, name)).collect()
}

/// The function that gives the graph, of the host values.
fn graph(cx: &Context, block: &Block, signature: &Signature, hosts: &[&Member]) -> TokenStream {
    let (source, e) = (cx.source, cx.source.krate());
    let (bounds, names) = signature.parameters(cx, block, |_| true);
    let list = hosts.iter().filter_map(|host| {
        let Shape::Tensor { dtype, .. } = host.shape else {
            return None;
        };
        let (ident, ty) = (&host.ident, element(source, dtype));
        Some(quote!(#ident: #ty))
    });
    let idents = hosts.iter().map(|host| &host.ident);
    let texts = hosts.iter().map(|host| host.name.as_str());
    let dtypes = dtypes(cx, block);
    quote! {
        /// The program's graph, dims symbolic.
        pub fn graph #bounds(#(#list),*) -> #e::ModelGraph<Model #names> {
            #e::__private::graph(
                Called::BLOCK,
                &[#(<#dtypes as #e::__private::Element>::DTYPE),*],
                &[#((#texts, #e::__private::host(#idents))),*],
            )
        }
    }
}

/// A field per dim.
fn dims(cx: &Context, block: &Block) -> TokenStream {
    let e = cx.source.krate();
    let mut seen = BTreeSet::new();
    let names = block.generics.iter().filter_map(|generic| match generic {
        Generic::Dim(name) => Some(name),
        _ => None,
    });
    let names = names.filter(|name| seen.insert(name.as_str().to_lowercase()));
    let names: Vec<&ast::Ident> = names.collect();
    if names.is_empty() {
        return quote!(pub type Dims = #e::Empty;);
    }
    let idents = names
        .iter()
        .map(|name| rust::word(&name.as_str().to_lowercase(), cx.source.ends(name.span).0));
    let texts = names.iter().map(|name| name.as_str());
    quote!(#e::__private::dims! { #(#idents #texts)* })
}

/// A struct with a field per parameter or result.
struct Record {
    kind: Ident,
    /// As seen from outside of the module.
    ty: TokenStream,
    inside: TokenStream,
    outside: Option<TokenStream>,
}

fn record(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    kind: &str,
    docs: &str,
    members: &[&Member],
) -> Record {
    let (source, e) = (cx.source, cx.source.krate());
    let (name, kind) = (&signature.name, format_ident!("{kind}"));
    if members.is_empty() {
        return Record {
            ty: quote!(#name::#kind),
            inside: quote!(#[doc = #docs] pub type #kind = #e::Empty;),
            outside: None,
            kind,
        };
    }
    let (bounds, names) = signature.parameters_of(cx, block, members);
    let (_, all) = signature.parameters(cx, block, |_| true);
    let idents = members.iter().map(|m| &m.ident);
    let types = members.iter().map(|m| {
        m.shape.data(source, &|shape| {
            let name = inner_name(shape);
            quote!(<Model #all as Structs>::#name)
        })
    });
    let member_docs = members.iter().map(|m| m.docs());
    let walk = members.iter().map(|m| m.walk(source));
    // What is read is filled where it is, and shown where reading it may fail; each impl costs the
    // user's crate some 0.2 ms of its check.
    let read = (kind != "Inputs")
        .then(|| quote!(#e::__private::core::fmt::Debug, #e::__private::core::default::Default));
    Record {
        ty: quote!(#name::#kind #names),
        inside: quote! {
            #[doc = #docs]
            #[derive(#e::__private::core::clone::Clone, #read)]
            pub struct #kind #bounds { #(#member_docs pub #idents: #types,)* }
        },
        outside: Some(quote! {
            impl #bounds #e::Pack for #name::#kind #names {
                fn walk(&mut self, walker: &mut #e::__private::Walker) { #(#walk)* }
            }
        }),
        kind,
    }
}

/// The results that are readable, each once.
fn results<'a>(cx: &Context, block: &'a Block, signature: &Signature) -> Vec<Member<'a>> {
    let names = block.result.iter().flat_map(|result| &result.names);
    let mut seen = BTreeSet::new();
    let results = names.zip(&block.ret.types);
    let results = results.filter(|(name, _)| seen.insert(name.as_str()));
    let scope = (&cx.structs, &signature.variables);
    let results = results.filter_map(|(name, ty)| Member::read(cx.source, scope, name, &[], ty));
    results.collect()
}

/// `Weights::from_safetensors`, if there are weights.
fn from_safetensors(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    weights: &[&Member],
) -> Option<TokenStream> {
    let name = &signature.name;
    let e = cx.source.krate();
    let (bounds, names) = signature.parameters_of(cx, block, weights);
    let function = quote! {
        #[allow(dead_code)]
        impl #bounds #name::Weights #names {
            /// Reads the weights from a safetensors file.
            ///
            /// # Errors
            /// The file cannot be read; or every tensor that is missing or of another type.
            pub fn from_safetensors(
                path: impl #e::__private::core::convert::AsRef<#e::__private::std::path::Path>,
            ) -> #e::__private::core::result::Result<Self, #e::Error> {
                #e::__private::from_safetensors(path)
            }
        }
    };
    (!weights.is_empty()).then_some(function)
}

/// What a struct is called among those of its module.
fn inner_name(shape: &Shape) -> Ident {
    let text = match shape {
        Shape::Struct(name) => name.as_str().to_owned(),
        Shape::Other(path) => path.to_string().replace("::", "_").replace("r#", ""),
        _ => String::new(),
    };
    rust::word(&text, Span::call_site())
}

/// The structs that parameters are made of, as the module sees them: through a trait that is
/// implemented outside of it.
fn structs(
    cx: &Context,
    block: &Block,
    signature: &Signature,
) -> Option<(TokenStream, TokenStream)> {
    let name = &signature.name;
    let (bounds, params) = signature.parameters(cx, block, |_| true);
    let params_structs = signature.params.iter();
    let used = params_structs.filter_map(|param| param.shape.structure());
    let used: BTreeMap<Ident, &Shape> = used.map(|s| (inner_name(s), s)).collect();
    let inner: Vec<_> = used.keys().collect();
    let outer = used.values().map(|structure| structure.named(cx.source));
    let inside = quote! {
        #[doc(hidden)]
        pub(super) trait Structs { #(type #inner;)* }
    };
    let outside = quote! {
        impl #bounds #name::Structs for #name::Model #params { #(type #inner = #outer;)* }
    };
    (!used.is_empty()).then_some((inside, outside))
}
