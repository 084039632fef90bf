//! Merges of partial results, their conversion to the result, and copies of boxes.

use eindecomp_core::ein::LabelId;
use eindecomp_core::plan::layout::Region;

use super::call::Call;
use super::function::{Array, Builder, Function, THREADS, Walk};
use super::plain::{first_of, volume};
use super::state::State;
use super::text::{load, store};
use crate::backend::program::Kind;

/// Partial results of one launch.
const SOURCES: usize = 16;

/// An array, and its walk over some labels; labels in `lacking` it does not have.
#[derive(Clone, Debug)]
pub(super) struct Walked {
    pub(super) array: Array,
    pub(super) walk: Walk,
    pub(super) lacking: Vec<LabelId>,
}

impl Walked {
    /// By one label per axis that it has; the axes of others have one element.
    pub(super) fn by_axis(
        array: &Array,
        labels: &[LabelId],
        has: impl Fn(LabelId) -> bool,
    ) -> Walked {
        let mut walk = Walk::default();
        let mut lacking = Vec::new();
        for ((&l, r), stride) in labels.iter().zip(&array.region.0).zip(array.strides()) {
            walk.base -= r.0 as i64 * stride;
            match has(l) {
                true => walk.add(l, stride),
                false => lacking.push(l),
            }
        }
        Walked {
            array: array.clone(),
            walk,
            lacking,
        }
    }
}

/// What is merged where: points of `labels` of a tile.
pub(super) struct Merge<'a> {
    pub(super) state: &'a State,
    pub(super) labels: &'a [LabelId],
    pub(super) tile: &'a Region,
}

impl Merge<'_> {
    /// Merges sources, each of one array per component, in the balanced binary tree `((0, 1), (2, 3)), …`
    /// over their order, into components or, to `finish`, into the result.
    pub(super) fn calls(
        &self,
        sources: &[Vec<Walked>],
        targets: &[Walked],
        finish: bool,
        builder: &mut Builder,
    ) {
        if volume(self.tile, self.labels) == 0 || sources.is_empty() {
            return;
        }
        builder.scoped(|builder| {
            let mut level = sources.to_vec();
            while level.len() > SOURCES {
                let groups: Vec<Vec<Vec<Walked>>> =
                    level.chunks(SOURCES).map(<[_]>::to_vec).collect();
                level = Vec::with_capacity(groups.len());
                for group in groups {
                    let made: Vec<Walked> = group[0]
                        .iter()
                        .map(|w| Walked {
                            array: Array {
                                pointer: builder
                                    .array(w.array.dtype, w.array.region.clone())
                                    .pointer,
                                ..w.array.clone()
                            },
                            ..w.clone()
                        })
                        .collect();
                    builder.push(self.call(&group, &made, false));
                    level.push(made);
                }
            }
            builder.push(self.call(&level, targets, finish));
        });
    }

    fn call(&self, sources: &[Vec<Walked>], targets: &[Walked], finish: bool) -> Call {
        let points = volume(self.tile, self.labels);
        let mut f = Function::after(self.state.text());
        f.ranges(self.labels, self.tile);
        f.int("points", points as i64);
        start(&mut f, self.labels);
        let mut names = Vec::new();
        for (n, source) in sources.iter().enumerate() {
            let mut values = Vec::new();
            for (c, of) in source.iter().enumerate() {
                let x = format!("x{n}_{c}");
                f.read(&x, &of.array);
                let place = of.walk.expression(&mut f, &format!("xb{n}_{c}"));
                values.push(load(of.array.dtype, &format!("{x}[{place}]")));
            }
            f.body.add(format!(
                "const State s{n} = {};",
                self.state.resume(&values)
            ));
            names.push(format!("s{n}"));
        }
        let mut made = names.len();
        while names.len() > 1 {
            let mut next = Vec::new();
            for pair in names.chunks(2) {
                match pair {
                    [a, b] => {
                        f.body.add(format!("const State s{made} = join({a}, {b});"));
                        next.push(format!("s{made}"));
                        made += 1;
                    }
                    _ => next.push(pair[0].clone()),
                }
            }
            names = next;
        }
        let values = match finish {
            true => vec![self.state.finish(&names[0], &mut f.body)],
            false => self.state.parts(&names[0]),
        };
        for (n, ((value, kind), target)) in values.iter().zip(targets).enumerate() {
            let y = format!("y{n}");
            f.write(&y, &target.array);
            let place = target.walk.expression(&mut f, &format!("yb{n}"));
            let value = store(target.array.dtype, *kind, value);
            f.body.add(format!(
                "{}{y}[{place}] = {value};",
                first_of(&target.lacking)
            ));
        }
        f.body.add("}");
        f.launch("merge", points.div_ceil(THREADS as usize))
    }
}

/// Opens the loop over the points of labels.
pub(super) fn start(f: &mut Function, labels: &[LabelId]) {
    f.body.add("for (i64 p = blockIdx.x * (i64)blockDim.x + threadIdx.x; p < points; p += (i64)gridDim.x * blockDim.x) {");
    f.labels(labels, "p");
}

/// Copies a box, converting to the element type of `to`.
pub(super) fn copy(from: &Array, to: &Array, region: &Region) -> Option<Call> {
    let labels: Vec<LabelId> = (0..region.0.len() as u16).map(LabelId).collect();
    let points = volume(region, &labels);
    if points == 0 {
        return None;
    }
    let mut f = Function::default();
    f.ranges(&labels, region);
    f.int("points", points as i64);
    start(&mut f, &labels);
    f.read("x", from);
    f.write("y", to);
    let source = Walked::by_axis(from, &labels, |_| true)
        .walk
        .expression(&mut f, "xb");
    let target = Walked::by_axis(to, &labels, |_| true)
        .walk
        .expression(&mut f, "yb");
    let element = format!("x[{source}]");
    let value = match from.dtype == to.dtype {
        true => element,
        false => {
            let kind = Kind::of(from.dtype);
            f.body.add(format!(
                "const {} value = {};",
                super::text::register(kind),
                load(from.dtype, &element)
            ));
            store(to.dtype, kind, "value")
        }
    };
    f.body.add(format!("y[{target}] = {value};"));
    f.body.add("}");
    Some(f.launch("copy", points.div_ceil(THREADS as usize)))
}
