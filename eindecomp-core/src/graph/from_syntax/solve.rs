//! The dims of a block by the shapes of its arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Arg, Block, Frame, Lower, LowerError, ParamRole};
use crate::ein::Dim;
use crate::graph::{Clause, Cmp};
use crate::syntax::check::{Type, solve_linear};

/// An axis of a parameter and of its argument.
struct Pair {
    param: Arc<str>,
    axis: usize,
    declared: Dim,
    actual: Dim,
}

impl Lower<'_, '_> {
    /// Bare axes of the arguments first, then linear ones, then those of the results, of the shapes
    /// that they are `said` to have; what cannot be decided becomes a clause.
    pub(super) fn solve(
        &mut self,
        block: &Block,
        args: &[Arg],
        given: &BTreeMap<Arc<str>, Dim>,
        said: &[Vec<Dim>],
    ) -> Result<BTreeMap<Arc<str>, Dim>, Vec<LowerError>> {
        let name = &block.name.name;
        if args.len() != block.params.len() {
            let (expected, given) = (block.params.len(), args.len());
            return Err(vec![LowerError::Arity {
                block: name.clone(),
                expected,
                given,
            }]);
        }
        let consts = Frame::new(block, BTreeMap::new(), String::new());
        let (mut pairs, mut errors) = (Vec::new(), Vec::new());
        for (param, arg) in block.params.iter().zip(args) {
            let host = param.role == ParamRole::Host;
            self.pair(
                &consts,
                &param.ty,
                arg,
                host,
                param.name.to_string(),
                &mut pairs,
                &mut errors,
            );
        }
        let names: BTreeSet<&Arc<str>> = block.dims.iter().collect();
        let mut dims = given.clone();
        for pair in &pairs {
            if let Some(symbol) = pair.declared.as_symbol().filter(|s| names.contains(s)) {
                dims.entry(symbol.clone())
                    .or_insert_with(|| pair.actual.clone());
            }
        }
        let results = block.results.iter().zip(said);
        let results = results.filter_map(|(result, said)| Some((result.ty.tensor()?, said)));
        let results = results.flat_map(|(t, said)| t.axes.iter().zip(said));
        let results = results.map(|(axis, said)| (self.dim(&consts, axis), said));
        let results: Vec<(Dim, &Dim)> = results.collect();
        let mut known: Vec<(&Dim, &Dim)> = pairs
            .iter()
            .map(|pair| (&pair.declared, &pair.actual))
            .collect();
        for more in [&[][..], &results] {
            known.extend(more.iter().map(|(axis, said)| (axis, *said)));
            loop {
                let before = dims.len();
                for (axis, actual) in &known {
                    dims.extend(solve_linear(axis, actual, &names, &dims));
                }
                if dims.len() == before {
                    break;
                }
            }
        }
        for dim in block.dims.iter().filter(|d| !dims.contains_key(*d)) {
            errors.push(LowerError::Undetermined {
                block: name.clone(),
                dim: dim.clone(),
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        for pair in pairs {
            let expected = pair.declared.substitute(&|s| dims.get(s).cloned());
            if expected == pair.actual {
                continue;
            }
            if (&expected - &pair.actual).as_const().is_some() {
                errors.push(LowerError::Extent {
                    block: name.clone(),
                    param: pair.param,
                    axis: pair.axis,
                    declared: pair.declared.into(),
                    expected,
                    actual: pair.actual,
                });
                continue;
            }
            let origin = format!("axis {} of `{}` of block `{name}`", pair.axis, pair.param);
            let (left, right, origin) = (expected, pair.actual, origin.into());
            self.builder.clause(Clause {
                left,
                cmp: Cmp::Eq,
                right,
                origin,
            });
        }
        if errors.is_empty() {
            Ok(dims)
        } else {
            Err(errors)
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn pair(
        &self,
        frame: &Frame<'_>,
        ty: &Type,
        arg: &Arg,
        host: bool,
        path: String,
        pairs: &mut Vec<Pair>,
        errors: &mut Vec<LowerError>,
    ) {
        let mut wrong = |given: String| {
            errors.push(LowerError::Argument {
                block: frame.block.name.name.clone(),
                param: path.as_str().into(),
                expected: ty.to_string(),
                given,
            });
        };
        match (ty, arg) {
            (Type::Tensor(t), Arg::Value(_)) if t.axes.is_empty() => {}
            (Type::Tensor(t), Arg::Tensor(node) | Arg::State(node)) if !host => {
                let Some(node) = self.builder.node(*node) else {
                    return wrong("not in the graph".into());
                };
                if node.dtype != t.dtype || node.shape.len() != t.axes.len() {
                    let axes: Vec<String> = node.shape.iter().map(Dim::to_string).collect();
                    return wrong(format!("`{}[{}]`", node.dtype, axes.join(", ")));
                }
                for (axis, (declared, actual)) in t.axes.iter().zip(&node.shape).enumerate() {
                    let (declared, actual) = (self.dim(frame, declared), actual.clone());
                    pairs.push(Pair {
                        param: path.as_str().into(),
                        axis,
                        declared,
                        actual,
                    });
                }
            }
            (Type::Struct(s), Arg::Struct(fields)) => {
                let declared = self
                    .program
                    .structure(&s.name)
                    .map_or(&[][..], |s| &s.fields);
                if declared.len() != fields.len() {
                    return wrong(format!("a struct of {} fields", fields.len()));
                }
                for (field, arg) in declared.iter().zip(fields) {
                    if let Some(ty) = self.program.field_type(s, field.name.as_str()) {
                        let path = format!("{path}.{}", field.name);
                        self.pair(frame, &ty, arg, host, path, pairs, errors);
                    }
                }
            }
            (Type::Array(element, length), Arg::Array(elements)) => {
                let length = self.dim(frame, length);
                if length.as_const() != Some(elements.len() as i64) {
                    return wrong(format!("an array of {} elements", elements.len()));
                }
                for (at, arg) in elements.iter().enumerate() {
                    self.pair(
                        frame,
                        element,
                        arg,
                        host,
                        format!("{path}.{at}"),
                        pairs,
                        errors,
                    );
                }
            }
            (_, Arg::Tensor(_) | Arg::State(_)) => wrong("a tensor".into()),
            (_, Arg::Struct(_)) => wrong("a struct".into()),
            (_, Arg::Array(_)) => wrong("an array".into()),
            (_, Arg::Value(_)) => wrong("a number".into()),
        }
    }
}
