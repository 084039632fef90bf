//! Indices that are written in upper case, as dims are.

use super::body::BodyCx;
use super::walk::{free, stands};
use crate::syntax::ast::Ident;
use crate::syntax::diag::Fix;

impl BodyCx<'_> {
    /// An index declared in upper case in lower case, here and wherever the statement reads an axis
    /// by it; `taken` are the indices around.
    pub(super) fn in_lower_case(&self, name: &Ident, taken: &dyn Fn(&str) -> bool) -> Option<Fix> {
        let lower = name.as_str().to_lowercase();
        if lower == name.as_str() || taken(&lower) || self.dims.named(&lower).is_some() {
            return None;
        }
        let mut places = Vec::new();
        let value = self.value()?;
        stands(value, name.as_str(), &mut places);
        if places.is_empty() && !free(value).contains(&&*lower) {
            return None;
        }
        let mut fix = Fix::replace(name.span, &*lower, "indices are lower case: {}");
        let uses = places.into_iter().map(|span| (span, lower.clone()));
        fix.edits
            .extend(uses.filter(|(span, _)| *span != name.span));
        Some(fix)
    }

    /// The index called `name`, which the statement does not use, where an axis is read by its name
    /// in upper case.
    pub(super) fn shouted(&self, name: &str) -> Option<Fix> {
        let mut places = Vec::new();
        stands(self.value()?, &name.to_uppercase(), &mut places);
        let help = format!("did you mean `{name}`?");
        let edits: Vec<_> = places.into_iter().map(|s| (s, name.to_owned())).collect();
        (!edits.is_empty()).then_some(Fix { help, edits })
    }
}
