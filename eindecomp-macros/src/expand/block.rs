//! A block: the function on handles, and the module of the block as a program by itself.

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::syntax::ast::{self, AttrKind, Block, Generic, Item};
use eindecomp_core::syntax::check;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{format_ident, quote};

use super::Context;
use crate::shape::{
    Member, Shape, Variables, element, local, once, parameter, to_a_tensor, variables,
};
use crate::{others, rust};

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
    variables: Variables<'a>,
}

impl<'a> Signature<'a> {
    /// Dtype variables as parameters of an item, with and without their traits: those that
    /// `mentioned` finds, in the order of the generics.
    fn parameters(
        &self,
        cx: &Context,
        block: &'a Block,
        mentioned: impl Fn(&str) -> bool,
    ) -> (TokenStream, TokenStream) {
        let mut seen = BTreeSet::new();
        let mut kept: Vec<&ast::Ident> = Vec::new();
        for generic in &block.generics {
            let name = generic.name().as_str();
            if let Some((name, _)) = self.variables.get(name).filter(|_| mentioned(name))
                && seen.insert(name.as_str())
            {
                kept.push(name);
            }
        }
        if kept.is_empty() {
            return Default::default();
        }
        let bounds = kept
            .iter()
            .map(|n| parameter(cx.source, self.variables[n.as_str()]));
        let names = kept.iter().map(|n| rust::ident(cx.source, n));
        (quote!(<#(#bounds),*>), quote!(<#(#names),*>))
    }

    /// As [`Signature::parameters`], those of some members.
    fn parameters_of(
        &self,
        cx: &Context,
        block: &'a Block,
        members: &[&Member],
    ) -> (TokenStream, TokenStream) {
        let mut used = members.iter().filter_map(|m| m.shape.variable());
        let used: BTreeSet<&str> = used.by_ref().map(|name| name.as_str()).collect();
        self.parameters(cx, block, |name| used.contains(name))
    }
}

/// What a parameter is to the runs.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Data,
    Weight,
    State,
    Host,
}

fn role(member: &Member) -> Role {
    let said = member.attrs.iter().find_map(|attr| match attr.kind {
        AttrKind::Weight => Some(Role::Weight),
        AttrKind::State => Some(Role::State),
        // Anything else is an error, and as good as data.
        AttrKind::Host if matches!(member.shape, Shape::Tensor { .. }) => Some(Role::Host),
        _ => None,
    });
    said.unwrap_or(Role::Data)
}

pub fn expand(cx: &Context, block: &Block) -> TokenStream {
    let (source, head) = (cx.source, &block.head);
    let variables = variables(&block.generics);
    let params = block.params.iter().filter_map(|param| {
        let scope = (&cx.structs, &variables);
        Member::read(source, scope, &param.name, &param.attrs, &param.ty)
    });
    let results = block
        .ret
        .types
        .iter()
        .map(|ty| Shape::read(ty, &cx.structs, &variables));
    let signature = Signature {
        name: rust::ident(source, &head.name),
        text: head.name.as_str(),
        vis: rust::vis(source, &head.vis),
        cfgs: rust::cfgs(source, &head.attrs),
        params: once(params),
        results: results.collect(),
        variables: variables.clone(),
    };
    let function = function(cx, block, &signature);
    // Of any rank, or a kernel alone, it is no program by itself.
    let is_rest = |generic: &Generic| matches!(generic, Generic::Rest(_));
    let open = block.splits.is_some() || block.generics.iter().any(is_rest);
    let seen = seen(cx, block, &signature);
    let module = match open {
        false => module(cx, block, &signature, &seen.inside),
        true => hidden_module(&signature, &seen.inside),
    };
    let (before, after) = (seen.before, seen.outside);
    quote!(#function #before #module #after)
}

/// What other programs see of a block: in its module, before it and behind it.
struct Seen {
    inside: TokenStream,
    before: TokenStream,
    outside: TokenStream,
}

fn seen(cx: &Context, block: &Block, signature: &Signature) -> Seen {
    let (source, e) = (cx.source, cx.source.krate());
    let Signature { name, cfgs, .. } = signature;
    let known = check::signature_of(block, cx.checked);
    let unique = others::macro_name(source, &block.head.name);
    let before = others::signature_macro(source, &unique, &block.head.vis, cfgs, known.as_ref());
    let vis = others::macro_vis(&block.head.vis);
    let places = others::declared_here(source, block);
    let mut body = Group::new(Delimiter::Brace, quote!(Called::BLOCK));
    body.set_span(name.span());
    let head = quote! {
        #[doc(hidden)]
        pub const fn EIN0039_this_block_calls_itself() -> #e::__private::Other
    };
    let head = rust::located(head, name.span());
    let function = quote!(#head #body);
    let inside = quote! {
        #[doc(hidden)]
        #[allow(unused_imports)]
        #vis use #unique as __signature;
        #[doc(hidden)]
        #[allow(missing_debug_implementations)]
        pub enum Called {}
        #function
        #places
    };
    let consts = match &known {
        Some(known) => others::signature_consts(source, known),
        None => quote!(&[]),
    };
    let params = signature.params.iter().enumerate();
    let params = params.filter_map(|(at, param)| {
        let ty = param.shape.structure()?.named(source);
        let function = others::struct_of_param(at, Span::call_site());
        Some(quote!(#[doc(hidden)] pub fn #function(_: #ty) {}))
    });
    let params: TokenStream = params.collect();
    let params = (!params.is_empty()).then(|| {
        quote! {
            #cfgs
            #[allow(dead_code, private_interfaces)]
            impl #name::Called { #params }
        }
    });
    let constant = constant(cx, block, signature, &consts);
    let outside = quote!(#constant #params);
    Seen {
        inside,
        before,
        outside,
    }
}

/// What stands for the block where it is called. It looks at the same of the blocks that this one
/// calls: one that calls itself by way of other programs is a cycle, which rustc reports by the
/// name of the function that leads here.
fn constant(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    consts: &TokenStream,
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
        .filter(|path| !cx.recursive && is_block(path));
    let called = called.map(|path| rust::path(cx.source, path));
    let called: TokenStream = called
        .map(|path| quote!(#path::EIN0039_this_block_calls_itself();))
        .collect();
    let at = name.span();
    let braced = |tokens| {
        let mut group = Group::new(Delimiter::Brace, tokens);
        group.set_span(at);
        group
    };
    let own = quote!(#e::__private::Other::new(|| &#program, #text, #consts));
    let value = braced(quote!(#called #own));
    let head = quote! {
        #[doc(hidden)]
        pub const BLOCK: #e::__private::Other =
    };
    let head = rust::located(head, at);
    let body = braced(quote!(#head #value;));
    let head = rust::located(quote!(impl #name::Called), at);
    quote!(#cfgs #head #body)
}

/// The module of a block that is no program by itself.
fn hidden_module(signature: &Signature, inside: &TokenStream) -> TokenStream {
    let Signature {
        name, vis, cfgs, ..
    } = signature;
    let keyword = rust::keyword("mod", name);
    quote! {
        #cfgs
        #[doc(hidden)]
        #[allow(dead_code, non_snake_case)]
        #vis #keyword #name {
            #inside
        }
    }
}

/// The dims in no type of a parameter, which callers from Rust give, and what they are called there.
fn free_dims(block: &Block) -> Vec<(&ast::Ident, String)> {
    let types: Vec<String> = block.params.iter().map(|p| p.ty.to_string()).collect();
    let word = |c: char| !(c.is_alphanumeric() || c == '_');
    let determined = |name: &str| types.iter().any(|ty| ty.split(word).any(|w| w == name));
    let dims = block.generics.iter().filter_map(|generic| match generic {
        Generic::Dim(name) => Some(name),
        _ => None,
    });
    let free = dims.filter(|name| !determined(name.as_str()));
    free.map(|name| {
        let lower = name.as_str().to_lowercase();
        match block.params.iter().any(|p| p.name.as_str() == lower) {
            true => (name, format!("dim_{lower}")),
            false => (name, lower),
        }
    })
    .collect()
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
            let nodes: Vec<Ident> = (0..results.len())
                .map(|i| format_ident!("node{i}", span = Span::mixed_site()))
                .collect();
            let program = &cx.program;
            let body = local! {
                let graph = #graph;
                let mut args = #e::__private::Args::new(graph);
                let given = [#(#give),*];
                let [#(#nodes),*] = #program.call(
                    #text, args, &given,
                    &[#((#dim_texts, #e::__private::core::convert::Into::into(#dim_idents))),*]
                );
            };
            let values = nodes
                .iter()
                .map(|node| local!(#e::Tensor::new(graph, #node)));
            // A tuple is two or more.
            match results.len() {
                _ if holes => (None, quote!((#(#types),*)), never),
                1 => (None, quote!(#(#types)*), quote!(#body #(#values)*)),
                _ => (None, quote!((#(#types),*)), quote!(#body (#(#values),*))),
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

/// The module of the block as a program, and its impls outside of it: inside of a function, a
/// module does not see what stands around it.
fn module(cx: &Context, block: &Block, signature: &Signature, hidden: &TokenStream) -> TokenStream {
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
    let (outputs, of_outputs) = outputs(cx, block, signature);
    let (_, of_inputs) = signature.parameters_of(cx, block, &inputs);
    let (_, of_weights) = signature.parameters_of(cx, block, &weights);
    let inputs = record(
        cx,
        block,
        signature,
        "Inputs",
        "What a run is given.",
        &inputs,
    );
    let reader = from_safetensors(cx, block, signature, &weights);
    let weights = record(
        cx,
        block,
        signature,
        "Weights",
        "What stays across runs.",
        &weights,
    );
    let (state, state_ty) = state(cx, block, signature, &of(Role::State));
    let structs = structs(cx, block, signature);

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
    let parts = [&dims, &inputs, &weights, &state, &outputs, &structs];
    let types = parts.map(|part| &part.inside);
    let impls = parts.into_iter().flat_map(|part| &part.outside);
    let keyword = rust::keyword("mod", name);
    let (bounds, names) = signature.parameters(cx, block, |_| true);
    let turbofish = (!names.is_empty()).then(|| quote!(::#names));
    let dtypes = block.generics.iter().filter_map(|generic| match generic {
        Generic::Dtype(name, _) => Some(rust::ident(source, name)),
        _ => None,
    });
    let dtypes: Vec<Ident> = dtypes.collect();
    let ty = match names.is_empty() {
        true => quote!(
            enum Model {}
        ),
        false => quote! {
            struct Model #bounds(#e::__private::core::marker::PhantomData<fn() -> (#(#dtypes,)*)>);
        },
    };
    // The graph of a block with dtype variables is that of an instance.
    let instance = match names.is_empty() {
        true => quote!(#text),
        false => {
            let dtypes = dtypes
                .iter()
                .map(|name| quote!(<#name as #e::__private::Element>::DTYPE));
            quote!(&#e::__private::instance(#text, &[#(#dtypes),*]))
        }
    };
    quote! {
        #cfgs
        #[doc = #docs]
        #[allow(dead_code, non_snake_case, private_interfaces, private_bounds)]
        #vis #keyword #name {
            /// The program's type.
            #[derive(#e::__private::core::fmt::Debug)]
            pub #ty
            /// The program's graph, dims symbolic.
            pub fn graph #bounds(#(#host_list),*) -> #e::ModelGraph<Model #names> {
                Model #turbofish::graph(#(#host_names),*)
            }
            #(#types)*
            #hidden
        }
        #cfgs
        impl #bounds #name::Model #names {
            fn graph(#(#host_list),*) -> #e::ModelGraph<#name::Model #names> {
                #program.graph(#instance, &[#((#host_texts, #e::__private::host(#host_names))),*])
            }
        }
        #cfgs
        impl #bounds #e::Model for #name::Model #names {
            type Dims = #name::Dims;
            type Inputs = #name::Inputs #of_inputs;
            type Weights = #name::Weights #of_weights;
            type State = #state_ty;
            type Outputs = #name::Outputs #of_outputs;
        }
        #(#cfgs #impls)*
        #reader
    }
}

/// What stands in the module, and the items that stand beside it.
struct Part {
    inside: TokenStream,
    outside: Vec<TokenStream>,
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
        outside: vec![quote! {
            impl #e::Dims for #block_name::Dims {
                fn values(&self) -> #e::__private::std::vec::Vec<(&'static #e::__private::core::primitive::str, #e::__private::core::primitive::usize)> {
                    #e::__private::std::vec![#((#texts, self.#idents)),*]
                }
            }
        }],
    }
}

/// A struct with a field per parameter.
fn record(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    kind: &str,
    docs: &str,
    members: &[&Member],
) -> Part {
    let (source, e) = (cx.source, cx.source.krate());
    let (bounds, names) = signature.parameters_of(cx, block, members);
    let (_, all) = signature.parameters(cx, block, |_| true);
    let (block, kind) = (&signature.name, format_ident!("{kind}"));
    let idents = members.iter().map(|m| &m.ident);
    let types = members.iter().map(|m| {
        m.shape.data(source, &|shape| {
            let name = inner_name(shape);
            quote!(<Model #all as Structs>::#name)
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
            pub struct #kind #bounds { #(#member_docs pub #idents: #types,)* }
        },
        outside: vec![quote! {
            #[allow(unused_variables)]
            impl #bounds #e::Pack for #block::#kind #names {
                fn pack(self, tensors: &mut #e::Tensors) { #packer #(#pack)* }
            }
        }],
    }
}

/// `Weights::from_safetensors`, if there are weights.
fn from_safetensors(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    weights: &[&Member],
) -> TokenStream {
    if weights.is_empty() {
        return TokenStream::new();
    }
    let Signature { name, cfgs, .. } = signature;
    let e = cx.source.krate();
    let (bounds, names) = signature.parameters_of(cx, block, weights);
    let take = weights.iter().map(|weight| weight.take(cx.source));
    quote! {
        #cfgs
        #[allow(dead_code)]
        impl #bounds #name::Weights #names {
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

/// A field per state, and the type; blocks without states share one.
fn state(
    cx: &Context,
    block: &Block,
    signature: &Signature,
    states: &[&Member],
) -> (Part, TokenStream) {
    let e = cx.source.krate();
    if states.is_empty() {
        let none = Part {
            inside: TokenStream::new(),
            outside: Vec::new(),
        };
        return (none, quote!(#e::NoState));
    }
    let name = &signature.name;
    let (bounds, params) = signature.parameters_of(cx, block, states);
    let docs = "What stays across runs and is stored into.";
    let mut part = record(cx, block, signature, "State", docs, states);
    let take = states.iter().map(|state| state.take(cx.source));
    part.outside.push(quote! {
        impl #bounds #e::Unpack for #name::State #params {
            fn unpack(
                tensors: &mut #e::Tensors,
            ) -> #e::__private::core::result::Result<Self, #e::Error> {
                let mut reader = #e::__private::Reader::of(tensors);
                let state = #name::State { #(#take,)* };
                reader.finish(state)
            }
        }
    });
    (part, quote!(#name::State #params))
}

/// A field per result.
fn outputs(cx: &Context, block: &Block, signature: &Signature) -> (Part, TokenStream) {
    let e = cx.source.krate();
    let name = &signature.name;
    let names = block.result.iter().flat_map(|result| &result.names);
    let mut seen = BTreeSet::new();
    let results: Vec<_> = names
        .zip(&block.ret.types)
        .filter(|(name, _)| seen.insert(name.as_str()))
        .filter_map(|(name, ty)| {
            let scope = (&cx.structs, &signature.variables);
            Member::read(cx.source, scope, name, &[], ty)
        })
        .collect();
    let list: Vec<&Member> = results.iter().collect();
    let (bounds, params) = signature.parameters_of(cx, block, &list);
    let mut part = record(cx, block, signature, "Outputs", "What a run gives.", &list);
    let inside = part.inside;
    part.inside = quote!(#[derive(#e::__private::core::default::Default)] #inside);
    let (idents, texts) = (
        results.iter().map(|r| &r.ident),
        results.iter().map(|r| r.name.as_str()),
    );
    part.outside.push(quote! {
        impl #bounds #e::Unpack for #name::Outputs #params {
            fn unpack(
                tensors: &mut #e::Tensors,
            ) -> #e::__private::core::result::Result<Self, #e::Error> {
                #e::__private::core::result::Result::Ok(#name::Outputs { #(#idents: tensors.take(#texts)?,)* })
            }
        }
    });
    (part, params)
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
fn structs(cx: &Context, block: &Block, signature: &Signature) -> Part {
    let name = &signature.name;
    let (bounds, params) = signature.parameters(cx, block, |_| true);
    let used: BTreeMap<Ident, &Shape> = signature
        .params
        .iter()
        .filter_map(|param| param.shape.structure())
        .map(|structure| (inner_name(structure), structure))
        .collect();
    if used.is_empty() {
        return Part {
            inside: TokenStream::new(),
            outside: Vec::new(),
        };
    }
    let inner: Vec<_> = used.keys().collect();
    let outer = used.values().map(|structure| structure.named(cx.source));
    Part {
        inside: quote! {
            #[doc(hidden)]
            pub(super) trait Structs { #(type #inner;)* }
        },
        outside: vec![quote! {
            impl #bounds #name::Structs for #name::Model #params { #(type #inner = #outer;)* }
        }],
    }
}
