//! A statement without reductions inside its expressions: one thread per element, or some that share its
//! points.

use eindecomp_core::ein::einsum::Part;
use eindecomp_core::ein::{DType, EinSum, Expr, LabelId, Value};
use eindecomp_core::plan::layout::Region;

use super::call::Call;
use super::contraction::Contraction;
use super::function::{Array, Builder, Function, THREADS, Walk};
use super::loads::Bound;
use super::state::State;
use super::text::{load, name, store};
use crate::backend::error::KernelError;
use crate::backend::program::{Kind, LoadAxis, Program, Source};
use crate::backend::split::Statement;

/// Most bytes of static shared memory.
const SHARED: usize = 48 << 10;
/// Threads that keep a device busy.
const BUSY: usize = 1 << 17;

/// A compiled statement.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) statement: Statement,
    pub(super) shapes: Vec<Vec<usize>>,
    pub(super) program: Program,
    pub(super) state: Option<State>,
    pub(super) out: Vec<LabelId>,
    pub(super) reduced: Vec<LabelId>,
    /// What a partial result consists of, if the reduction is over records.
    pub(super) parts: Option<Vec<Part>>,
    contraction: Option<Contraction>,
    site: i64,
}

/// Where a reduction starts and what it writes.
pub(super) struct Ends<'a> {
    /// Partial results so far.
    pub(super) prior: Option<&'a [Array]>,
    /// The result, or the components of a record if `partial`.
    pub(super) targets: &'a [Array],
    pub(super) partial: bool,
    /// Only elements of the result that are not finite are computed.
    pub(super) repair: bool,
}

impl Plain {
    pub(super) fn new(statement: Statement, site: i64) -> Result<Plain, KernelError> {
        let shapes: Vec<Vec<usize>> = statement.operands.iter().map(|t| t.shape.clone()).collect();
        let dtypes: Vec<DType> = statement.operands.iter().map(|t| t.dtype).collect();
        let e = &statement.einsum;
        let source = Source {
            einsum: e,
            extents: &statement.extents,
            shapes: &shapes,
            dtypes: &dtypes,
        };
        let record = e.reduce.as_ref().and_then(|r| r.agg.record());
        let program = match record {
            None => Program::compile(&source),
            Some(record) => {
                let args = e.body.arguments();
                let lift = |c: &eindecomp_core::ein::Component| {
                    c.lift.clone().map(&mut |x| match x {
                        Expr::Operand(n) => args[n].clone(),
                        other => other,
                    })
                };
                let lifts: Vec<Expr> = record.state.iter().map(lift).collect();
                let dtypes = record.state.iter().map(|c| Some(c.dtype));
                let bodies: Vec<_> = lifts.iter().zip(dtypes).collect();
                Program::of(&source, &bodies)
            }
        };
        let program = program.ok_or(KernelError::DType)?;
        let state = match &e.reduce {
            None => None,
            Some(r) => {
                let state = State::of(r, program.result().kind, e.dtype);
                Some(state.ok_or(KernelError::DType)?)
            }
        };
        let reduced = e.reduce.iter().flat_map(|r| &r.labels).copied().collect();
        let contraction = match &state {
            Some(State::Row(..) | State::LogSumExp(_)) => Contraction::of(&statement, &program),
            _ => None,
        };
        Ok(Plain {
            out: e.out.iter().flatten().copied().collect(),
            parts: record.map(|_| e.parts()),
            reduced,
            shapes,
            program,
            state,
            contraction,
            site,
            statement,
        })
    }

    fn bound<'a>(&'a self, reads: &'a [Array]) -> Bound<'a> {
        Bound {
            program: &self.program,
            reads,
            shapes: &self.shapes,
            site: self.site,
        }
    }

    /// Computes a tile.
    pub(super) fn calls(
        &self,
        tile: &Region,
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
        builder: &mut Builder,
    ) {
        if volume(tile, &self.out) == 0 {
            return;
        }
        let Some(state) = &self.state else {
            builder.push(self.map(tile, reads, &ends.targets[0], slots));
            return;
        };
        let bound = self.bound(reads);
        if let (Some(contraction), None, false) = (&self.contraction, ends.prior, ends.repair) {
            let out = output_walk(&self.statement, &ends.targets[0], None);
            let made = contraction.calls(tile, &bound, state, (&ends.targets[0], &out), slots);
            if let Some(calls) = made {
                calls.into_iter().for_each(|c| builder.push(c));
                return;
            }
        }
        builder.push(self.reduce(tile, state, reads, ends, slots));
    }

    fn map(&self, tile: &Region, reads: &[Array], target: &Array, slots: &[Value]) -> Call {
        let mut f = Function::default();
        let points = volume(tile, &self.out);
        f.ranges(&self.out, tile);
        f.int("points", points as i64);
        let bound = self.bound(reads);
        bound.prepare(&mut f, slots);
        f.write("y", target);
        f.body.add("for (i64 p = blockIdx.x * (i64)blockDim.x + threadIdx.x; p < points; p += (i64)gridDim.x * blockDim.x) {");
        f.labels(&self.out, "p");
        bound.instructions(&mut f);
        let place = output_walk(&self.statement, target, None).expression(&mut f, "yb");
        let result = self.program.result();
        let value = store(target.dtype, result.kind, &name(result));
        f.body.add(format!("y[{place}] = {value};"));
        f.body.add("}");
        f.launch("map", points.div_ceil(THREADS as usize))
    }

    fn reduce(
        &self,
        tile: &Region,
        state: &State,
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
    ) -> Call {
        let (points, reduced) = (volume(tile, &self.out), volume(tile, &self.reduced));
        let bound = self.bound(reads);
        let tree = state.size() * THREADS as usize <= SHARED;
        let (across, rows_first) = match tree {
            true => self.threads(points, reduced, &bound),
            false => (1, true),
        };
        let mut f = Function::after(state.text());
        f.ranges(&self.out, tile);
        f.ranges(&self.reduced, tile);
        f.int("points", points as i64);
        f.int("reduced", reduced as i64);
        f.int("across", across as i64);
        f.int("rows_first", rows_first.into());
        bound.prepare(&mut f, slots);
        let e = &self.statement;
        let parts = self.parts.as_deref();
        let part = |n: usize| parts.and_then(|p| p.get(n));
        if tree {
            f.body.add(format!("SHARED(State, shared, {THREADS});"));
        }
        // Numbers of threads are small: 64 bits are divided by a call, around which registers spill.
        f.body
            .add("const u32 width = (u32)across, rows = blockDim.x / width;");
        f.body.add(
            "const u32 row = rows_first ? threadIdx.x % rows : threadIdx.x / width, lane = rows_first ? threadIdx.x / rows : threadIdx.x % width;",
        );
        f.body.add(
            "for (i64 first = (i64)blockIdx.x * rows; first < points; first += (i64)gridDim.x * rows) {",
        );
        f.body.add("const i64 p = first + row;");
        f.labels(&self.out, "p");
        for (n, target) in ends.targets.iter().enumerate() {
            f.write(&format!("y{n}"), target);
        }
        let places: Vec<String> = (ends.targets.iter().enumerate())
            .map(|(n, target)| {
                let of = part(n).filter(|_| ends.partial);
                output_walk(e, target, of).expression(&mut f, &format!("yb{n}"))
            })
            .collect();
        f.body.add("State s = empty();");
        let mut wanted = String::from("p < points");
        if ends.repair {
            let kind = Kind::of(ends.targets[0].dtype);
            f.body.add("bool broken = false;");
            f.body.add("if (p < points) {");
            let value = load(ends.targets[0].dtype, &format!("y0[{}]", places[0]));
            let real = super::text::register(kind);
            f.body.add(format!("const {real} value = {value};"));
            f.body.add("broken = value - value != 0;");
            f.body.add("}");
            wanted += " && broken";
        }
        f.body.add(format!("const bool wanted = {wanted};"));
        f.body.add("if (wanted) {");
        if let Some(prior) = ends.prior {
            f.body.add("if (lane == 0) {");
            let mut values = Vec::new();
            for (n, array) in prior.iter().enumerate() {
                f.read(&format!("w{n}"), array);
                let place = output_walk(e, array, part(n)).expression(&mut f, &format!("wb{n}"));
                values.push(load(array.dtype, &format!("w{n}[{place}]")));
            }
            f.body
                .add(format!("const State before = {};", state.resume(&values)));
            f.body.add("s = before;");
            f.body.add("}");
        }
        f.body.add("for (i64 q = lane; q < reduced; q += across) {");
        f.labels(&self.reduced, "q");
        bound.instructions(&mut f);
        if let Some(filter) = self.program.filter {
            f.body.add(format!("if (!{}) continue;", name(filter)));
        }
        let values: Vec<String> = self.program.results.iter().map(|r| name(*r)).collect();
        let index = self
            .reduced
            .first()
            .map_or(String::new(), |l| format!("l{}", l.at()));
        f.body.add(format!(
            "const State one = {};",
            state.lift(&values, &index)
        ));
        f.body.add("s = join(s, one);");
        f.body.add("}");
        f.body.add("}");
        if tree {
            f.body.add("if (across > 1) {");
            f.body.add("shared[lane * rows + row] = s;");
            f.body.add("__syncthreads();");
            f.body
                .add("for (i64 half = across / 2; half > 0; half /= 2) {");
            f.body.add("if (lane < half) {");
            f.body.add("const State a = shared[lane * rows + row], b = shared[(lane + half) * rows + row];");
            f.body.add("shared[lane * rows + row] = join(a, b);");
            f.body.add("}");
            f.body.add("__syncthreads();");
            f.body.add("}");
            f.body.add("if (lane == 0) s = shared[row];");
            f.body.add("__syncthreads();");
            f.body.add("}");
        }
        f.body.add("if (lane == 0 && wanted) {");
        let values = match ends.partial {
            true => state.parts("s"),
            false => vec![state.finish("s", &mut f.body)],
        };
        for (n, (value, kind)) in values.iter().enumerate() {
            let missing = part(n).filter(|_| ends.partial);
            let missing = missing.map_or(Vec::new(), |p| lacking(&e.einsum, p));
            let value = store(ends.targets[n].dtype, *kind, value);
            let guard = first_of(&missing);
            f.body.add(format!("{guard}y{n}[{}] = {value};", places[n]));
        }
        f.body.add("}");
        f.body.add("}");
        let rows = THREADS as usize / across;
        f.launch("reduce", points.div_ceil(rows))
    }

    /// How many threads share an element, a power of two, and whether neighbouring threads have neighbouring
    /// elements rather than points of one.
    fn threads(&self, points: usize, reduced: usize, bound: &Bound<'_>) -> (usize, bool) {
        let dense = |label: Option<&LabelId>| {
            let steps = |l: &LabelId| {
                let loads = self.program.loads.iter();
                loads.filter(|load| bound.walk(load).step(*l) == 1).count()
            };
            label.map_or(0, steps)
        };
        let gathers = |l: Option<&LabelId>| {
            let reads = |a: &LoadAxis| matches!(a, LoadAxis::Data { labels, .. } if l.is_some_and(|l| labels.contains(l)));
            self.program
                .loads
                .iter()
                .any(|load| load.axes.iter().any(reads))
        };
        let rows_first =
            dense(self.out.last()) > dense(self.reduced.last()) && !gathers(self.reduced.last());
        let most = if rows_first {
            THREADS as usize / 32
        } else {
            THREADS as usize
        };
        let useful = (reduced / 4).max(1).next_power_of_two();
        let busy = BUSY.div_ceil(points.max(1)).next_power_of_two();
        let least = if rows_first { 1 } else { 32 };
        (useful.min(busy.max(least)).min(most), rows_first)
    }
}

/// Points of some labels of a tile.
pub(super) fn volume(tile: &Region, labels: &[LabelId]) -> usize {
    let extent = |l: &LabelId| tile.0[l.at()].1.saturating_sub(tile.0[l.at()].0);
    labels.iter().map(extent).product()
}

/// Labels of axes that a part lacks.
fn lacking(e: &EinSum, part: &Part) -> Vec<LabelId> {
    let axes = e.out.iter().zip(&part.axes).filter(|(_, has)| !**has);
    axes.flat_map(|(labels, _)| labels).copied().collect()
}

/// `if` the labels are at their first values, since others would write the same.
pub(super) fn first_of(labels: &[LabelId]) -> String {
    let first = labels.iter().map(|l| format!("l{0} == lo{0}", l.at()));
    let first: Vec<String> = first.collect();
    match first.is_empty() {
        true => String::new(),
        false => format!("if ({}) ", first.join(" && ")),
    }
}

/// The walk of the output, or of a part of it, over labels.
pub(super) fn output_walk(statement: &Statement, array: &Array, part: Option<&Part>) -> Walk {
    let mut walk = Walk::default();
    let axes = statement
        .einsum
        .out
        .iter()
        .zip(&array.region.0)
        .zip(array.strides());
    for (axis, ((labels, r), stride)) in axes.enumerate() {
        walk.base -= r.0 as i64 * stride;
        if part.is_some_and(|p| !p.axes[axis]) {
            continue;
        }
        let mut inner = 1;
        for l in labels.iter().rev() {
            walk.add(*l, inner * stride);
            inner *= statement.extents[l.at()] as i64;
        }
    }
    walk
}
