//! `#[whole]` and `#[split]`: what a statement says of its plan.

use std::sync::Arc;

use super::body::BodyCx;
use super::tree::Index;
use crate::syntax::ast::{Attr, AttrKind, Ident};
use crate::syntax::diag::{Code, Diag, Fix};

impl BodyCx<'_> {
    /// Is a statement whole, and in how many parts are its indices split?
    pub(super) fn pinned(
        &mut self,
        attrs: &[Attr],
        indices: &[Index],
    ) -> (bool, Vec<(Arc<str>, u64)>) {
        let (mut whole, mut split) = (None::<&Attr>, Vec::<(&Ident, u64)>::new());
        for attr in attrs {
            match &attr.kind {
                AttrKind::Whole => whole = Some(attr),
                AttrKind::Split(parts) => {
                    for part in parts {
                        self.pin(attr, part, indices, &mut split);
                    }
                }
                _ => {}
            }
        }
        if let Some((attr, (first, _))) = whole.zip(split.iter().find(|(_, n)| *n > 1)) {
            let text = format!("a `#[whole]` statement is not split, but `{first}` is here");
            let diag = Diag::new(Code::Attribute, attr.span, text);
            let diag = diag.secondary(first.span, "split here");
            let fix = Fix::replace(attr.span, "", "leave out the `#[whole]`");
            self.errors.push(diag.fix(fix));
        }
        let split = split.into_iter().map(|(index, n)| (index.name.clone(), n));
        (whole.is_some(), split.collect())
    }

    fn pin<'a>(
        &mut self,
        attr: &Attr,
        (index, n): &'a (Ident, u64),
        indices: &[Index],
        split: &mut Vec<(&'a Ident, u64)>,
    ) {
        let error = |text: String| Diag::new(Code::Attribute, index.span, text);
        if !indices.iter().any(|i| i.name == index.name) {
            let diag = error(format!("the statement has no index `{index}`"));
            let names: Vec<&str> = indices.iter().map(|i| &*i.name).collect();
            self.errors.push(match &names[..] {
                [only] => diag.fix(Fix::replace(index.span, *only, "did you mean {}?")),
                _ => diag.help(format!("its indices are `{}`", names.join("`, `"))),
            });
        } else if let Some((first, _)) = split.iter().find(|(other, _)| other.name == index.name) {
            let diag = error(format!("`{index}` is split twice"));
            let diag = diag.secondary(first.span, "first here");
            self.errors.push(diag.help("leave one of them out"));
        } else if *n == 0 {
            let diag = error(format!("`{index}` cannot be split in 0 parts"));
            let AttrKind::Split(parts) = &attr.kind else {
                return;
            };
            let parts = parts.iter().map(|(name, n)| match name.name == index.name {
                true => format!("{name} = 1"),
                false => format!("{name} = {n}"),
            });
            let text = format!("#[split({})]", parts.collect::<Vec<_>>().join(", "));
            let help = "{} forbids to split it";
            self.errors
                .push(diag.fix(Fix::replace(attr.span, text, help)));
        } else {
            split.push((index, *n));
        }
    }
}
