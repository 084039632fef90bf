//! What a parameter's type is in Rust, and how its values are walked.

use std::collections::{BTreeMap, BTreeSet};

use eindecomp_core::ein::DType;
use eindecomp_core::syntax::Span;
use eindecomp_core::syntax::ast::{self, Attr, AttrKind, DimKind, DtypeClass, Generic, TypeKind};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::rust;
use crate::tokens::Source;

/// `quote!` whose variables cannot meet the user's.
macro_rules! local {
    ($($tokens:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*)
    };
}
pub(crate) use local;

/// The structs that a type may name.
pub struct Structs<'a> {
    /// Those of this `ein!`, by name.
    pub local: BTreeMap<&'a str, &'a ast::Struct>,
    /// Where something is wrong: what stands there is no struct of another.
    pub refused: BTreeSet<Span>,
    /// Where a block calls or a struct contains itself: such fields are left out.
    pub endless: BTreeSet<Span>,
}

/// The dtype variables of a block: name and trait.
pub type Variables<'a> = BTreeMap<&'a str, (&'a ast::Ident, DtypeClass)>;

/// The dtype variables among the generics of a block.
pub fn variables(generics: &[Generic]) -> Variables<'_> {
    let variables = generics.iter().rev().filter_map(|generic| match generic {
        Generic::Dtype(name, class) => Some((name.as_str(), (name, *class))),
        _ => None,
    });
    variables.collect()
}

/// A dtype variable as a parameter of a Rust item.
pub fn parameter(source: &Source, (name, class): (&ast::Ident, DtypeClass)) -> TokenStream {
    let (e, name) = (source.krate(), rust::ident(source, name));
    match class {
        DtypeClass::Float => quote!(#name: #e::Float),
        DtypeClass::Int => quote!(#name: #e::Int),
    }
}

/// The number of axes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// So many.
    Fixed(usize),
    /// Those of some `..L`s and so many more: a const parameter of the function.
    Open(Vec<String>, usize),
}

impl Rank {
    fn tokens(&self) -> TokenStream {
        match self {
            Rank::Fixed(rank) => quote!(#rank),
            open => {
                let name = open.parameter();
                quote!(#name)
            }
        }
    }

    /// The const parameter of an open rank.
    pub fn parameter(&self) -> Option<Ident> {
        match self {
            Rank::Fixed(_) => None,
            Rank::Open(rests, more) => {
                let plain = rests.iter().map(|rest| rest.trim_start_matches("r#"));
                let names: Vec<&str> = plain.collect();
                Some(format_ident!("RANK_{}_{more}", names.join("_")))
            }
        }
    }
}

/// The type of elements.
#[derive(Clone, Copy)]
pub enum Element<'a> {
    Known(DType),
    Variable(&'a ast::Ident),
}

/// A type, as far as Rust sees it: extents are no part of it.
#[derive(Clone)]
pub enum Shape<'a> {
    Tensor {
        dtype: Element<'a>,
        rank: Rank,
    },
    Struct(&'a ast::Ident),
    /// Of another `ein!`.
    Other(&'a ast::Path),
    Array(Box<Shape<'a>>, &'a ast::Dim),
}

impl<'a> Shape<'a> {
    /// `None` if the type is not readable; the check has reported that.
    pub fn read(ty: &'a ast::Type, structs: &Structs, variables: &Variables) -> Option<Shape<'a>> {
        match &ty.kind {
            TypeKind::Tensor { dtype, axes } => {
                let axes = axes.as_deref().unwrap_or_default();
                let dtype = match DType::from_name(dtype.as_str()) {
                    Some(known) => Element::Known(known),
                    None if variables.contains_key(dtype.as_str()) => Element::Variable(dtype),
                    None => return None,
                };
                let rests = axes.iter().filter_map(|axis| match &axis.kind {
                    DimKind::Rest(name) => Some(name.to_string()),
                    _ => None,
                });
                let mut rests: Vec<String> = rests.collect();
                rests.sort();
                let fixed = axes.len() - rests.len();
                let rank = match rests.is_empty() {
                    true => Rank::Fixed(fixed),
                    false => Rank::Open(rests, fixed),
                };
                Some(Shape::Tensor { dtype, rank })
            }
            TypeKind::Struct { path, .. } => {
                let name = path.as_ident();
                if structs.endless.contains(&path.span) {
                    return None;
                }
                match name.filter(|name| structs.local.contains_key(name.as_str())) {
                    Some(name) => Some(Shape::Struct(name)),
                    None if structs.refused.contains(&path.span) => None,
                    None => Some(Shape::Other(path)),
                }
            }
            TypeKind::Array(element, length) => Some(Shape::Array(
                Box::new(Shape::read(element, structs, variables)?),
                length,
            )),
        }
    }

    /// The type of its values; `structure` gives the type of a struct, which is one of the last
    /// two kinds.
    pub fn data(&self, source: &Source, structure: &dyn Fn(&Shape) -> TokenStream) -> TokenStream {
        let e = source.krate();
        match self {
            Shape::Tensor { dtype, rank } => {
                let (element, rank) = (element(source, *dtype), rank.tokens());
                quote!(#e::Array<#element, #rank>)
            }
            Shape::Struct(_) | Shape::Other(_) => structure(self),
            Shape::Array(element, _) => {
                let element = element.data(source, structure);
                quote!(#e::__private::std::vec::Vec<#element>)
            }
        }
    }

    /// The type of its handles; slices live for `life`, or as the context says.
    pub fn handles(&self, source: &Source, life: &TokenStream) -> TokenStream {
        let e = source.krate();
        match self {
            Shape::Tensor { dtype, rank } => {
                let (element, rank) = (element(source, *dtype), rank.tokens());
                quote!(#e::Tensor<'g, #element, #rank>)
            }
            Shape::Struct(name) => {
                let name = handles_of(&rust::ident(source, name));
                quote!(#name<'g>)
            }
            Shape::Other(path) => {
                let path = rust::path(source, path);
                quote!(<#path as #e::__private::Fields>::Handles<'g>)
            }
            Shape::Array(element, _) => {
                let element = element.handles(source, life);
                quote!(&#life [#element])
            }
        }
    }

    /// How long its arrays are, outermost first.
    fn lengths(&self, source: &Source) -> Vec<TokenStream> {
        let mut lengths = Vec::new();
        let mut shape = self;
        while let Shape::Array(element, length) = shape {
            lengths.push(rust::extent(source, length));
            shape = element;
        }
        lengths
    }

    /// The const parameter for its rank, if that is open.
    pub fn open(&self) -> Option<Ident> {
        match self {
            Shape::Tensor { rank, .. } => rank.parameter(),
            _ => None,
        }
    }

    /// The dtype variable in it; structs have none.
    pub fn variable(&self) -> Option<&'a ast::Ident> {
        match self {
            Shape::Tensor {
                dtype: Element::Variable(name),
                ..
            } => Some(name),
            Shape::Array(element, _) => element.variable(),
            _ => None,
        }
    }

    /// The struct that it is made of.
    pub fn structure(&self) -> Option<&Shape<'a>> {
        match self {
            Shape::Tensor { .. } => None,
            Shape::Struct(_) | Shape::Other(_) => Some(self),
            Shape::Array(element, _) => element.structure(),
        }
    }

    /// A struct as Rust's type, where the `ein!` stands.
    pub fn named(&self, source: &Source) -> TokenStream {
        match self {
            Shape::Struct(name) => {
                let name = rust::ident(source, name);
                quote!(#name)
            }
            Shape::Other(path) => rust::path(source, path),
            _ => TokenStream::new(),
        }
    }
}

/// The Rust type of an element.
pub fn element(source: &Source, element: Element) -> TokenStream {
    let dtype = match element {
        Element::Known(dtype) => dtype,
        Element::Variable(name) => return rust::ident(source, name).into_token_stream(),
    };
    let e = source.krate();
    let name = format_ident!("{}", dtype.name());
    match dtype {
        DType::BF16 | DType::F16 => quote!(#e::half::#name),
        _ => quote!(#e::__private::core::primitive::#name),
    }
}

/// The struct of handles beside the struct `name`.
pub fn handles_of(name: &Ident) -> Ident {
    format_ident!("{name}Tensors", span = name.span())
}

/// A parameter or field.
pub struct Member<'a> {
    pub name: &'a ast::Ident,
    pub ident: Ident,
    pub attrs: &'a [Attr],
    pub ty: &'a ast::Type,
    pub shape: Shape<'a>,
}

impl<'a> Member<'a> {
    /// `None` if the type is not readable.
    pub fn read(
        source: &Source,
        (structs, variables): (&Structs, &Variables),
        name: &'a ast::Ident,
        attrs: &'a [Attr],
        ty: &'a ast::Type,
    ) -> Option<Member<'a>> {
        let shape = Shape::read(ty, structs, variables)?;
        Some(Member {
            name,
            ident: rust::ident(source, name),
            attrs,
            ty,
            shape,
        })
    }

    /// Its docs, else its type.
    pub fn docs(&self) -> TokenStream {
        let docs = rust::docs(self.attrs);
        if docs.is_empty() {
            let ty = format!("`{}`", self.ty);
            quote!(#[doc = #ty])
        } else {
            docs
        }
    }

    /// Its name in a weights file.
    fn file_name(&self) -> Option<&str> {
        self.attrs.iter().find_map(|attr| match &attr.kind {
            AttrKind::Name(name) => Some(&**name),
            _ => None,
        })
    }

    /// `walker` goes into the field of `self`.
    pub fn walk(&self, source: &Source) -> TokenStream {
        let (name, ident) = (self.name.as_str(), &self.ident);
        let lengths = self.shape.lengths(source);
        match self.file_name() {
            None if lengths.is_empty() => quote!(walker.field(#name, &mut self.#ident);),
            template => {
                let e = source.krate();
                let template = match template {
                    Some(template) => quote!(#e::__private::core::option::Option::Some(#template)),
                    None => quote!(#e::__private::core::option::Option::None),
                };
                quote!(walker.field_of(#name, &mut self.#ident, #template, &[#(#lengths),*]);)
            }
        }
    }

    /// The handles of a field of `self` as an argument.
    pub fn field(&self, source: &Source) -> TokenStream {
        let (name, ident) = (self.name.as_str(), &self.ident);
        let lengths = self.shape.lengths(source);
        match lengths.is_empty() {
            true => quote!(args.field(#name, self.#ident)),
            false => quote!(args.field_of(#name, self.#ident, &[#(#lengths),*])),
        }
    }

    /// Gives the handles as the next argument.
    pub fn give(&self, source: &Source) -> TokenStream {
        let (name, ident) = (self.name.as_str(), &self.ident);
        let lengths = self.shape.lengths(source);
        match lengths.is_empty() {
            true => quote!(.give(#name, #ident)),
            false => quote!(.give_of(#name, #ident, &[#(#lengths),*])),
        }
    }
}

/// Each name once: the check reports the others.
pub fn once<'a>(members: impl Iterator<Item = Member<'a>>) -> Vec<Member<'a>> {
    let mut seen = std::collections::BTreeSet::new();
    members
        .filter(|member| seen.insert(member.name.as_str()))
        .collect()
}

/// From a value of type `shape` to some tensor in it, outside of arrays: `.w.up`.
pub fn to_a_tensor(shape: &Shape, structs: &Structs, source: &Source) -> Option<TokenStream> {
    fn walk(
        shape: &Shape,
        structs: &Structs,
        source: &Source,
        depth: usize,
    ) -> Option<TokenStream> {
        match shape {
            Shape::Tensor { .. } => Some(TokenStream::new()),
            // A struct deeper than there are structs contains itself: reported by the check.
            Shape::Struct(name) if depth <= structs.local.len() => {
                let structure = structs.local.get(name.as_str())?;
                structure.fields.iter().find_map(|field| {
                    let shape = Shape::read(&field.ty, structs, &Variables::new())?;
                    let rest = walk(&shape, structs, source, depth + 1)?;
                    let name = rust::ident(source, &field.name);
                    Some(quote!(.#name #rest))
                })
            }
            _ => None,
        }
    }
    walk(shape, structs, source, 0)
}
