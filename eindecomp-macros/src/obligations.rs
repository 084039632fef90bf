//! What must hold of Rust consts, for rustc to evaluate.

use std::collections::BTreeSet;

use eindecomp_core::ein::Dim;
use eindecomp_core::ein::dim::Atom;
use eindecomp_core::syntax::check::{Checked, Obligation};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::report;
use crate::tokens::Source;

/// An `i64` expression for a const's symbol.
pub type Consts<'a> = dyn Fn(&str) -> Option<TokenStream> + 'a;

/// Each obligation that `wanted` says yes to as a const that fails where it does not hold.
pub fn obligations(
    source: &Source,
    checked: &Checked,
    consts: &Consts,
    wanted: &dyn Fn(&Obligation) -> bool,
) -> TokenStream {
    let all = checked.blocks.iter().flat_map(|block| &block.obligations);
    let mut seen = BTreeSet::new();
    // The instances of a block of any rank have the same ones.
    let mut once = |o: &&Obligation| seen.insert((o.clause.span, o.clause.to_string()));
    all.filter(|o| wanted(o))
        .filter(|o| once(o))
        .filter_map(|o| obligation(source, o, consts))
        .collect()
}

fn obligation(source: &Source, obligation: &Obligation, consts: &Consts) -> Option<TokenStream> {
    let Obligation { clause, diag } = obligation;
    let (left, right) = (value(&clause.left, consts)?, value(&clause.right, consts)?);
    let op = clause.cmp.symbol();
    let cmp: TokenStream = op.parse().ok()?;
    let text = format!("{}: {}: `{clause}` is", diag.code, diag.message);
    let more = report::helps(diag);
    let message = quote!(__ein::Message::sides(#text, LEFT, #op, RIGHT, #more));
    let fail = report::two_places(source, diag, message);
    let body = quote! {
        const LEFT: __ein::core::primitive::i64 = #left;
        const RIGHT: __ein::core::primitive::i64 = #right;
        if !(LEFT #cmp RIGHT) { #fail }
    };
    Some(report::failing(source, body))
}

/// A polynomial over Rust consts as an `i64` expression; `None` if it has another symbol.
fn value(dim: &Dim, consts: &Consts) -> Option<TokenStream> {
    let mut sum: Option<TokenStream> = None;
    for (atoms, coefficient) in dim.terms() {
        let factors: Option<Vec<TokenStream>> = atoms.iter().map(|a| atom(a, consts)).collect();
        let coefficient = Literal::i64_suffixed(coefficient);
        let term = factors?.into_iter().fold(
            quote!(#coefficient),
            |product, factor| quote!(#product * #factor),
        );
        sum = Some(match sum {
            None => term,
            Some(sum) => quote!(#sum + #term),
        });
    }
    let sum = sum.unwrap_or_else(|| quote!(0i64));
    Some(quote!((#sum)))
}

fn atom(atom: &Atom, consts: &Consts) -> Option<TokenStream> {
    let of = |dim: &Dim| value(dim, consts);
    Some(match atom {
        Atom::Sym(name) => consts(name)?,
        Atom::Div(a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            quote!((#a).div_euclid(#b))
        }
        Atom::Rem(a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            quote!((#a).rem_euclid(#b))
        }
    })
}
