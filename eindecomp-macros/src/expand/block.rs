//! A block: what its types are in Rust, and the items that it becomes.

use std::collections::BTreeSet;

use eindecomp_core::syntax::ast::{self, AttrKind, Block, Generic};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::{Context, function, program, seen};
use crate::rust;
use crate::shape::{Member, Shape, Variables, once, parameter, variables};

/// A block with what its types are in Rust.
pub struct Signature<'a> {
    pub name: Ident,
    /// The name as a string.
    pub text: &'a str,
    pub vis: TokenStream,
    pub cfgs: TokenStream,
    /// Every readable parameter, in order.
    pub params: Vec<Member<'a>>,
    /// Results and their types; `None` if one is not readable.
    pub results: Option<Vec<Shape<'a>>>,
    pub variables: Variables<'a>,
}

impl<'a> Signature<'a> {
    /// Dtype variables as parameters of an item, with and without their traits: those that
    /// `mentioned` finds, in the order of the generics.
    pub fn parameters(
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
    pub fn parameters_of(
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
pub enum Role {
    Data,
    Weight,
    State,
    Host,
}

pub fn role(member: &Member) -> Role {
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
    let function = function::expand(cx, block, &signature);
    // Of any rank, or a kernel alone, it is no program by itself.
    let is_rest = |generic: &Generic| matches!(generic, Generic::Rest(_));
    let open = block.splits.is_some() || block.generics.iter().any(is_rest);
    let seen = seen::expand(cx, block, &signature);
    let module = match open {
        false => program::expand(cx, block, &signature, &seen.inside),
        true => seen::module(&signature, &seen.inside),
    };
    let (before, after) = (seen.before, seen.outside);
    quote!(#function #before #module #after)
}
