//! A block: the function on handles, and the module of the block as a program by itself.

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::syntax::ast::{self, AttrKind, Block, Generic};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use super::Context;
use crate::rust;
use crate::shape::{Member, Shape, element, local, once, open_rank, to_a_tensor};

/// A block with what its types are in Rust.
struct Signature<'a> {
    name: Ident,
    /// The name as a string.
    text: &'a str,
    vis: TokenStream,
    cfgs: TokenStream,
    /// Every readable parameter, in order.
    params: Vec<Member<'a>>,
    /// Results and their types; `None` if one is not readable.
    results: Option<Vec<Shape<'a>>>,
}

/// What a parameter is to the runs.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Data,
    Weight,
    Host,
}

fn role(member: &Member) -> Role {
    let said = member.attrs.iter().find_map(|attr| match attr.kind {
        AttrKind::Weight => Some(Role::Weight),
        AttrKind::Host => Some(Role::Host),
        _ => None,
    });
    said.unwrap_or(Role::Data)
}

pub fn expand(cx: &Context, block: &Block) -> TokenStream {
    let (source, head) = (cx.source, &block.head);
    let params = block.params.iter().filter_map(|param| {
        Member::read(source, &cx.structs, &param.name, &param.attrs, &param.ty)
    });
    let results = block
        .ret
        .types
        .iter()
        .map(|ty| Shape::read(ty, &cx.structs));
    let signature = Signature {
        name: rust::ident(source, &head.name),
        text: head.name.as_str(),
        vis: rust::vis(source, &head.vis),
        cfgs: rust::cfgs(source, &head.attrs),
        params: once(params),
        results: results.collect(),
    };
    let function = function(cx, block, &signature);
    // Of any rank, it is no program by itself.
    let open = block
        .generics
        .iter()
        .any(|generic| matches!(generic, Generic::Rest(_)));
    let module = (!open).then(|| module(cx, block, &signature));
    quote!(#function #module)
}

/// The function that appends the block to the graph of its arguments.
fn function(cx: &Context, block: &Block, signature: &Signature) -> TokenStream {
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
    let tensors = || params.iter().filter(|p| role(p) != Role::Host);
    let graph = tensors().find_map(|param| {
        let rest = to_a_tensor(&param.shape, &cx.structs, source)?;
        let name = &param.ident;
        Some(local!(#name #rest .graph()))
    });
    let graph_param = graph.is_none().then(|| local!(graph: &'g #e::Graph,));
    let graph = graph.unwrap_or_else(|| local!(graph));
    let list = params.iter().map(|param| {
        let name = &param.ident;
        let ty = match (role(param), &param.shape) {
            (Role::Host, Shape::Tensor { dtype, .. }) => element(source, *dtype),
            _ => param.shape.handles(source, &TokenStream::new()),
        };
        rust::located(quote!(#name: #ty), name.span())
    });
    let give = params.iter().map(|param| {
        let ident = &param.ident;
        match role(param) {
            Role::Host => local! {
                #e::__private::Arg::Value(#e::__private::host(#ident))
            },
            _ => param.give(source, local!(#ident)),
        }
    });
    let shapes = params
        .iter()
        .map(|p| &p.shape)
        .chain(results.iter().flatten());
    let open: BTreeSet<usize> = shapes.filter_map(Shape::open).collect();
    let ranks = open.into_iter().map(open_rank);
    let (unknown, ret, body) = match results {
        Some(results) => {
            let types = results
                .iter()
                .map(|r| r.handles(source, &TokenStream::new()));
            let nodes: Vec<Ident> = (0..results.len())
                .map(|i| format_ident!("node{i}", span = Span::mixed_site()))
                .collect();
            let program = &cx.program;
            let body = local! {
                let graph = #graph;
                let mut args = #e::__private::Args::new(graph);
                let given = [#(#give),*];
                let [#(#nodes),*] = #program.call(#text, args, &given);
            };
            let values = nodes
                .iter()
                .map(|node| local!(#e::Tensor::new(graph, #node)));
            // A tuple is two or more.
            match results.len() {
                1 => (None, quote!(#(#types)*), quote!(#body #(#values)*)),
                _ => (None, quote!((#(#types),*)), quote!(#body (#(#values),*))),
            }
        }
        // The crate does not compile anyway; whatever the callers make of the result will do.
        None => (
            Some(quote!(, R)),
            quote!(R),
            quote!(#e::__private::core::unreachable!()),
        ),
    };
    let keyword = rust::keyword("fn", name);
    quote! {
        #attrs
        #[track_caller]
        #[allow(
            dead_code, non_snake_case, unused_variables,
            clippy::too_many_arguments, clippy::type_complexity
        )]
        #vis #keyword #name<'g #unknown #(, const #ranks: #e::__private::core::primitive::usize)*>(#graph_param #(#list),*) -> #ret { #body }
    }
}

/// The module of the block as a program, and its impls outside of it: inside of a function, a
/// module does not see what stands around it.
fn module(cx: &Context, block: &Block, signature: &Signature) -> TokenStream {
    let Signature {
        name,
        text,
        vis,
        cfgs,
        params,
        ..
    } = signature;
    let program = &cx.program;
    let (source, e) = (cx.source, cx.source.krate());
    let of = |wanted: Role| {
        params
            .iter()
            .filter(move |p| role(p) == wanted)
            .collect::<Vec<_>>()
    };
    let (inputs, weights, hosts) = (of(Role::Data), of(Role::Weight), of(Role::Host));

    let dims = dims(cx, block, signature);
    let outputs = outputs(cx, block, signature);
    let inputs = record(cx, signature, "Inputs", "What a run is given.", &inputs);
    let reader = from_safetensors(cx, signature, &weights);
    let weights = record(
        cx,
        signature,
        "Weights",
        "What stays across runs.",
        &weights,
    );
    let structs = structs(cx, signature);

    let host_list: Vec<_> = hosts
        .iter()
        .map(|host| {
            let (name, ty) = (
                &host.ident,
                host.shape.data(source, &|_| TokenStream::new()),
            );
            let ty = match &host.shape {
                Shape::Tensor { dtype, .. } => element(source, *dtype),
                _ => ty,
            };
            quote!(#name: #ty)
        })
        .collect();
    let host_names: Vec<_> = hosts.iter().map(|host| &host.ident).collect();
    let host_texts = hosts.iter().map(|host| host.name.as_str());
    let docs = format!("The block [`{text}`](fn@{text}) as a program by itself.");
    let types = [&dims, &inputs, &weights, &outputs, &structs].map(|part| &part.inside);
    let impls = [&dims, &inputs, &weights, &outputs, &structs].map(|part| &part.outside);
    let keyword = rust::keyword("mod", name);
    quote! {
        #cfgs
        #[doc = #docs]
        #[allow(dead_code, non_snake_case, private_interfaces, private_bounds)]
        #vis #keyword #name {
            /// The program's type.
            #[derive(#e::__private::core::fmt::Debug)]
            pub enum Model {}
            /// The program's graph, dims symbolic.
            pub fn graph(#(#host_list),*) -> #e::ModelGraph<Model> {
                Model::graph(#(#host_names),*)
            }
            #(#types)*
        }
        #cfgs
        impl #name::Model {
            fn graph(#(#host_list),*) -> #e::ModelGraph<#name::Model> {
                #program.graph(#text, &[#((#host_texts, #e::__private::host(#host_names))),*])
            }
        }
        #cfgs
        impl #e::Model for #name::Model {
            type Dims = #name::Dims;
            type Inputs = #name::Inputs;
            type Weights = #name::Weights;
            type Outputs = #name::Outputs;
        }
        #(#cfgs #impls)*
        #reader
    }
}

/// What stands in the module, and what stands beside it.
struct Part {
    inside: TokenStream,
    outside: TokenStream,
}

/// A field per dim.
fn dims(cx: &Context, block: &Block, signature: &Signature) -> Part {
    let e = cx.source.krate();
    let block_name = &signature.name;
    let mut seen = BTreeSet::new();
    let names: Vec<&ast::Ident> = block
        .generics
        .iter()
        .filter_map(|generic| match generic {
            Generic::Dim(name) => Some(name),
            _ => None,
        })
        .filter(|name| seen.insert(name.as_str().to_lowercase()))
        .collect();
    let idents: Vec<_> = names
        .iter()
        .map(|name| rust::word(&name.as_str().to_lowercase(), cx.source.ends(name.span).0))
        .collect();
    let texts: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    let docs = texts.iter().map(|name| format!("`{name}`"));
    Part {
        inside: quote! {
            /// Values of the dims.
            #[derive(
                #e::__private::core::clone::Clone, #e::__private::core::marker::Copy,
                #e::__private::core::fmt::Debug, #e::__private::core::cmp::PartialEq,
                #e::__private::core::cmp::Eq, #e::__private::core::hash::Hash
            )]
            pub struct Dims { #(#[doc = #docs] pub #idents: #e::__private::core::primitive::usize,)* }
        },
        outside: quote! {
            impl #e::Dims for #block_name::Dims {
                fn values(&self) -> #e::__private::std::vec::Vec<(&'static #e::__private::core::primitive::str, #e::__private::core::primitive::usize)> {
                    #e::__private::std::vec![#((#texts, self.#idents)),*]
                }
            }
        },
    }
}

/// A struct with a field per parameter.
fn record(
    cx: &Context,
    signature: &Signature,
    kind: &str,
    docs: &str,
    members: &[&Member],
) -> Part {
    let (source, e) = (cx.source, cx.source.krate());
    let (block, kind) = (&signature.name, format_ident!("{kind}"));
    let idents = members.iter().map(|m| &m.ident);
    let types = members.iter().map(|m| {
        m.shape.data(source, &|name| {
            let name = rust::word(name.as_str(), Span::call_site());
            quote!(<Model as Structs>::#name)
        })
    });
    let member_docs = members.iter().map(|m| m.docs());
    let pack = members.iter().map(|m| m.pack(source));
    let packer = (!members.is_empty()).then(|| {
        quote! {
            let packer = &mut #e::__private::Packer::new(tensors);
        }
    });
    Part {
        inside: quote! {
            #[doc = #docs]
            #[derive(#e::__private::core::clone::Clone, #e::__private::core::fmt::Debug)]
            pub struct #kind { #(#member_docs pub #idents: #types,)* }
        },
        outside: quote! {
            #[allow(unused_variables)]
            impl #e::Pack for #block::#kind {
                fn pack(self, tensors: &mut #e::Tensors) { #packer #(#pack)* }
            }
        },
    }
}

/// `Weights::from_safetensors`, if there are weights.
fn from_safetensors(cx: &Context, signature: &Signature, weights: &[&Member]) -> TokenStream {
    if weights.is_empty() {
        return TokenStream::new();
    }
    let Signature { name, cfgs, .. } = signature;
    let e = cx.source.krate();
    let take = weights.iter().map(|weight| weight.take(cx.source));
    quote! {
        #cfgs
        #[allow(dead_code)]
        impl #name::Weights {
            /// Reads the weights from a safetensors file.
            ///
            /// # Errors
            /// The file cannot be read; or every tensor that is missing or of another type.
            pub fn from_safetensors(
                path: impl #e::__private::core::convert::AsRef<#e::__private::std::path::Path>,
            ) -> #e::__private::core::result::Result<Self, #e::Error> {
                let mut reader = #e::__private::Reader::open(path)?;
                let weights = #name::Weights { #(#take,)* };
                reader.finish(weights)
            }
        }
    }
}

/// A field per result.
fn outputs(cx: &Context, block: &Block, signature: &Signature) -> Part {
    let e = cx.source.krate();
    let name = &signature.name;
    let names = block.result.iter().flat_map(|result| &result.names);
    let mut seen = BTreeSet::new();
    let results: Vec<_> = names
        .zip(&block.ret.types)
        .filter(|(name, _)| seen.insert(name.as_str()))
        .filter_map(|(name, ty)| Member::read(cx.source, &cx.structs, name, &[], ty))
        .collect();
    let list: Vec<&Member> = results.iter().collect();
    let mut part = record(cx, signature, "Outputs", "What a run gives.", &list);
    let inside = part.inside;
    part.inside = quote!(#[derive(#e::__private::core::default::Default)] #inside);
    let (idents, texts) = (
        results.iter().map(|r| &r.ident),
        results.iter().map(|r| r.name.as_str()),
    );
    part.outside.extend(quote! {
        impl #e::Unpack for #name::Outputs {
            fn unpack(
                tensors: &mut #e::Tensors,
            ) -> #e::__private::core::result::Result<Self, #e::Error> {
                #e::__private::core::result::Result::Ok(#name::Outputs { #(#idents: tensors.take(#texts)?,)* })
            }
        }
    });
    part
}

/// The structs that parameters are made of, as the module sees them: through a trait that is
/// implemented outside of it.
fn structs(cx: &Context, signature: &Signature) -> Part {
    let name = &signature.name;
    let used: BTreeMap<&str, &ast::Ident> = signature
        .params
        .iter()
        .filter_map(|param| param.shape.structure())
        .map(|structure| (structure.as_str(), structure))
        .collect();
    if used.is_empty() {
        return Part {
            inside: TokenStream::new(),
            outside: TokenStream::new(),
        };
    }
    let inner: Vec<_> = used
        .keys()
        .map(|text| rust::word(text, Span::call_site()))
        .collect();
    let outer = used
        .values()
        .map(|structure| rust::ident(cx.source, structure));
    Part {
        inside: quote! {
            #[doc(hidden)]
            pub(super) trait Structs { #(type #inner;)* }
        },
        outside: quote! {
            impl #name::Structs for #name::Model { #(type #inner = #outer;)* }
        },
    }
}
