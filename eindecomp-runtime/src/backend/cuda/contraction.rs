//! `⊕[k] a ⊗ b` of two operands: tiles in shared memory for any (⊗, ⊕), matrix products by the library.

use eindecomp_core::ein::{Agg, DType, LabelId, ScalarFn, Value};
use eindecomp_core::plan::layout::Region;

use super::call::{Call, Compute, Gemm, Matrix, Pointer};
use super::function::{Array, Function, Walk};
use super::loads::{Bound, emit, live};
use super::plain::volume;
use super::state::State;
use super::text::{load, name, register, store};
use crate::backend::program::{Kind, LoadAxis, Op, Program};
use crate::backend::split::Statement;

/// Rows and columns of a block's tile, and its depth.
const SIDE: usize = 64;
const DEPTH: usize = 16;
/// Rows and columns of a thread, 16 apart.
const OWN: usize = 4;
/// Below so many rows or columns a tile is mostly empty.
const SMALL: usize = 8;
/// Most library calls of a tile.
const PRODUCTS: usize = 64;

/// Where a label is: in both operands and the output (or in it alone), in one of them, or reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Batch,
    M,
    N,
    K,
}

/// A statement that is a contraction; its loads are left and right operand.
#[derive(Debug)]
pub(super) struct Contraction {
    /// Labels per class: batch, m, n, k.
    batch: Vec<LabelId>,
    m: Vec<LabelId>,
    n: Vec<LabelId>,
    k: Vec<LabelId>,
    /// Is it a sum of products of floats of this one type?
    product: Option<DType>,
}

impl Contraction {
    pub(super) fn of(statement: &Statement, program: &Program) -> Option<Contraction> {
        let e = &statement.einsum;
        let reduce = e.reduce.as_ref()?;
        let [a, b] = &program.loads[..] else {
            return None;
        };
        let needed = live(program);
        let instrs = || program.instrs.iter().filter(|i| needed.contains(&i.dst));
        let indexed = instrs().any(|i| matches!(i.op, Op::Index(_)));
        if reduce.filter.is_some() || indexed {
            return None;
        }
        let terms = |load: &crate::backend::program::Load| {
            let mut labels = Vec::new();
            for axis in &load.axes {
                match axis {
                    LoadAxis::Affine {
                        terms,
                        checked: false,
                        ..
                    } => labels.extend(terms.iter().map(|t| t.0)),
                    _ => return None,
                }
            }
            Some(labels)
        };
        let (in_a, in_b) = (terms(a)?, terms(b)?);
        let class = |l: &LabelId| match (in_a.contains(l), in_b.contains(l), e.is_output(*l)) {
            (true, true, false) => Some(Class::K),
            (_, _, false) => None,
            (true, false, _) => Some(Class::M),
            (false, true, _) => Some(Class::N),
            _ => Some(Class::Batch),
        };
        let labels: Vec<LabelId> = (e.out.iter().flatten().chain(&reduce.labels))
            .copied()
            .collect();
        let classes: Vec<Class> = labels.iter().map(class).collect::<Option<_>>()?;
        let of = |wanted: Class| -> Vec<LabelId> {
            let labels = labels.iter().zip(&classes).filter(|(_, c)| **c == wanted);
            labels.map(|(l, _)| *l).collect()
        };
        let (m, n, k) = (of(Class::M), of(Class::N), of(Class::K));
        if k.is_empty() || m.is_empty() && n.is_empty() {
            return None;
        }
        let dtypes = [a, b].map(|l| statement.operands[l.operand].dtype);
        let loaded: Vec<_> = instrs().filter(|i| matches!(i.op, Op::Load(_))).collect();
        let result = program.result();
        let multiplies = instrs().any(|i| {
            let args =
                |args: &[_]| loaded.iter().all(|l| args.contains(&l.dst)) && loaded.len() == 2;
            i.dst == result && matches!(&i.op, Op::Call(ScalarFn::MUL, a) if args(a))
        });
        let sums = reduce.agg == Agg::SUM && reduce.acc.is_float();
        let product = (dtypes[0] == dtypes[1] && dtypes[0].is_float() && multiplies && sums)
            .then_some(dtypes[0]);
        Some(Contraction {
            batch: of(Class::Batch),
            m,
            n,
            k,
            product,
        })
    }

    /// The calls for a tile with points; `None` where other kernels do better.
    pub(super) fn calls(
        &self,
        tile: &Region,
        bound: &Bound<'_>,
        state: &State,
        out: (&Array, &Walk),
        slots: &[Value],
    ) -> Option<Vec<Call>> {
        if volume(tile, &self.k) == 0 {
            return None;
        }
        if let Some(calls) = self.products(tile, bound, out) {
            return Some(calls);
        }
        let sides = [&self.m, &self.n].map(|labels| volume(tile, labels));
        let fits = sides.iter().all(|&side| side >= SMALL);
        fits.then(|| vec![self.tiled(tile, bound, state, out, slots)])
    }

    /// By the library, if its layouts allow.
    fn products(
        &self,
        tile: &Region,
        bound: &Bound<'_>,
        (c, out): (&Array, &Walk),
    ) -> Option<Vec<Call>> {
        let dtype = self.product?;
        let compute = match dtype {
            DType::F64 => Compute::F64,
            _ => Compute::F32,
        };
        let wide = if dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        };
        if c.dtype != dtype && c.dtype != wide {
            return None;
        }
        let loads = &bound.program.loads;
        let walks = [bound.walk(&loads[0]), bound.walk(&loads[1]), out.clone()];
        let axes = |labels: &[LabelId]| {
            let extent = |l: &LabelId| (tile.0[l.at()].1 - tile.0[l.at()].0) as i64;
            let axis = |l: &LabelId| Axis {
                extent: extent(l),
                steps: [0, 1, 2].map(|w| walks[w].step(*l)),
            };
            let axes = labels.iter().filter(|l| extent(l) > 1).map(axis);
            axes.collect::<Vec<Axis>>()
        };
        let (m, mut loops) = fastest(axes(&self.m), 2);
        let (n, rest) = fastest(axes(&self.n), 2);
        loops.extend(rest);
        let (k, rest) = fastest(axes(&self.k), 0);
        if !rest.is_empty() {
            return None;
        }
        loops.extend(axes(&self.batch));
        let (batch, outer) = largest(loops);
        let starts = [0, 1, 2].map(|w| walks[w].start(tile));
        let arrays = [
            &bound.reads[loads[0].operand],
            &bound.reads[loads[1].operand],
            c,
        ];
        let matrix = |w: usize, rows: &Axis, columns: &Axis, at: [i64; 3]| {
            let (row, column) = (rows.steps[w], columns.steps[w]);
            let dense = |extent: i64, step: i64| extent == 1 || step == 1;
            let reach =
                |by: i64, extent: i64, over: i64| if by == 1 { over.max(1) } else { extent };
            let (transposed, leading) = if dense(columns.extent, column) {
                (false, reach(rows.extent, row, columns.extent))
            } else if dense(rows.extent, row) {
                (true, reach(columns.extent, column, rows.extent))
            } else {
                return None;
            };
            let across = if transposed {
                rows.extent
            } else {
                columns.extent
            };
            let fits = leading >= across && batch.steps[w] >= 0;
            let Pointer {
                place,
                offset,
                bytes: size,
            } = arrays[w].pointer;
            let bytes = at[w] * arrays[w].dtype.size() as i64;
            fits.then_some(Matrix {
                start: Pointer {
                    place,
                    offset: offset + bytes as u64,
                    bytes: size - bytes as u64,
                },
                dtype: arrays[w].dtype,
                transposed,
                leading,
                stride: batch.steps[w],
            })
        };
        let mut calls = Vec::new();
        for at in points(&outer, starts)? {
            calls.push(Call::Matmul(Gemm {
                m: m.extent,
                n: n.extent,
                k: k.extent,
                batch: batch.extent,
                a: matrix(0, &m, &k, at)?,
                b: matrix(1, &k, &n, at)?,
                c: matrix(2, &m, &n, at)?,
                compute,
            }));
        }
        Some(calls)
    }

    /// By tiles in shared memory.
    fn tiled(
        &self,
        tile: &Region,
        bound: &Bound<'_>,
        state: &State,
        (target, out): (&Array, &Walk),
        slots: &[Value],
    ) -> Call {
        let loads = &bound.program.loads;
        let walks = [bound.walk(&loads[0]), bound.walk(&loads[1]), out.clone()];
        let kinds = [0, 1].map(|n| {
            let of = bound.program.instrs.iter();
            let mut of = of.filter(|i| matches!(i.op, Op::Load(at) if at == n));
            of.next().map_or(Kind::F32, |i| i.dst.kind)
        });
        let extents = [&self.m, &self.n, &self.k].map(|labels| volume(tile, labels));
        let tiles = [0, 1].map(|n| extents[n].div_ceil(SIDE));
        let works = tiles[0] * tiles[1] * volume(tile, &self.batch);
        let mut f = Function::after(state.text());
        for labels in [&self.batch, &self.m, &self.n, &self.k] {
            f.ranges(labels, tile);
        }
        for (name, value) in ["m", "n", "k"].iter().zip(extents) {
            f.int(format!("size_{name}"), value as i64);
        }
        f.int("works", works as i64);
        let dense_k = [0, 1].map(|w| self.k.last().is_some_and(|l| walks[w].step(*l) == 1));
        f.int("deep_a", dense_k[0].into());
        f.int("deep_b", dense_k[1].into());
        bound.prepare(&mut f, slots);
        f.write("y", target);
        for (w, (name, own)) in [("a", &self.m), ("b", &self.n)].into_iter().enumerate() {
            f.body.add(format!(
                "SHARED({}, tile_{name}, {});",
                register(kinds[w]),
                DEPTH * (SIDE + 1)
            ));
            place(&mut f, &format!("{name}_own"), own, &walks[w]);
            place(&mut f, &format!("{name}_deep"), &self.k, &walks[w]);
        }
        place(&mut f, "y_m", &self.m, &walks[2]);
        place(&mut f, "y_n", &self.n, &walks[2]);
        f.body
            .add("const int column = threadIdx.x % 16, row = threadIdx.x / 16;");
        f.body.add(format!(
            "const i64 tiles_m = (size_m + {0}) / {SIDE}, tiles_n = (size_n + {0}) / {SIDE};",
            SIDE - 1
        ));
        f.body
            .add("for (i64 work = blockIdx.x; work < works; work += gridDim.x) {");
        f.body.add(format!("const i64 m0 = work / tiles_n % tiles_m * {SIDE}, n0 = work % tiles_n * {SIDE}, batch = work / tiles_n / tiles_m;"));
        f.body.add("(void)batch;");
        f.labels(&self.batch, "batch");
        for (w, name) in ["a", "b", "y"].into_iter().enumerate() {
            let walk = Walk {
                base: walks[w].base,
                steps: (self.batch.iter())
                    .map(|l| (*l, walks[w].step(*l)))
                    .collect(),
            };
            let text = walk.expression(&mut f, &format!("{name}_base"));
            f.body.add(format!("const i64 at_{name} = {text};"));
        }
        f.body.add(format!("State sums[{OWN}][{OWN}];"));
        each(&mut f, "sums[i][j] = empty();");
        f.body
            .add(format!("for (i64 k0 = 0; k0 < size_k; k0 += {DEPTH}) {{"));
        f.body.add("__syncthreads();");
        let turns = DEPTH * SIDE / super::function::THREADS as usize;
        f.body.add("#pragma unroll");
        f.body
            .add(format!("for (int turn = 0; turn < {turns}; ++turn) {{"));
        f.body.add("const int e = turn * blockDim.x + threadIdx.x;");
        for (w, (name, size, first)) in [("a", "size_m", "m0"), ("b", "size_n", "n0")]
            .into_iter()
            .enumerate()
        {
            let array = &bound.reads[loads[w].operand];
            let element = format!(
                "x{}[at_{name} + at_{name}_own({first} + s) + at_{name}_deep(k0 + q)]",
                loads[w].operand
            );
            f.body.add("{");
            f.body.add(format!("const int q = deep_{name} ? e % {DEPTH} : e / {SIDE}, s = deep_{name} ? e / {DEPTH} : e % {SIDE};"));
            f.body.add(format!(
                "if (k0 + q < size_k && {first} + s < {size}) tile_{name}[q * {} + s] = {};",
                SIDE + 1,
                load(array.dtype, &element)
            ));
            f.body.add("}");
        }
        f.body.add("}");
        f.body.add("__syncthreads();");
        f.body.add(format!(
            "const int depth = size_k - k0 < {DEPTH} ? (int)(size_k - k0) : {DEPTH};"
        ));
        f.body.add("for (int q = 0; q < depth; ++q) {");
        for (w, (name, of, first, size)) in [
            ("a", "row", "m0", "size_m"),
            ("b", "column", "n0", "size_n"),
        ]
        .into_iter()
        .enumerate()
        {
            let kind = register(kinds[w]);
            f.body.add(format!("{kind} {name}[{OWN}];"));
            f.body.add("#pragma unroll");
            f.body.add(format!("for (int i = 0; i < {OWN}; ++i) {name}[i] = {first} + {of} + 16 * i < {size} ? ({kind})tile_{name}[q * {} + {of} + 16 * i] : ({kind})0;", SIDE + 1));
        }
        f.body.add("#pragma unroll");
        f.body.add(format!("for (int i = 0; i < {OWN}; ++i) {{"));
        f.body.add("#pragma unroll");
        f.body.add(format!("for (int j = 0; j < {OWN}; ++j) {{"));
        let needed = live(bound.program);
        for instr in bound
            .program
            .instrs
            .iter()
            .filter(|i| needed.contains(&i.dst))
        {
            let value = match instr.op {
                Op::Load(0) => "a[i]".into(),
                Op::Load(_) => "b[j]".into(),
                ref op => emit(op, instr.dst.kind),
            };
            let (kind, name) = (register(instr.dst.kind), name(instr.dst));
            f.body.add(format!("const {kind} {name} = {value};"));
        }
        let one = state.lift(&[name(bound.program.result())], "0");
        f.body.add(format!("const State one = {one};"));
        f.body.add("sums[i][j] = join(sums[i][j], one);");
        for _ in 0..4 {
            f.body.add("}");
        }
        f.body.add("#pragma unroll");
        f.body.add(format!("for (int i = 0; i < {OWN}; ++i) {{"));
        f.body.add("#pragma unroll");
        f.body.add(format!("for (int j = 0; j < {OWN}; ++j) {{"));
        f.body
            .add("const i64 m = m0 + row + 16 * i, n = n0 + column + 16 * j;");
        f.body.add("const State s = sums[i][j];");
        let (value, kind) = state.finish("s", &mut f.body);
        let value = store(target.dtype, kind, &value);
        f.body.add(format!(
            "if (m < size_m && n < size_n) y[at_y + at_y_m(m) + at_y_n(n)] = {value};"
        ));
        for _ in 0..3 {
            f.body.add("}");
        }
        f.launch("tiled", works)
    }
}

fn each(f: &mut Function, line: &str) {
    f.body.add("#pragma unroll");
    f.body.add(format!("for (int i = 0; i < {OWN}; ++i) {{"));
    f.body.add("#pragma unroll");
    f.body
        .add(format!("for (int j = 0; j < {OWN}; ++j) {line}"));
    f.body.add("}");
}

/// A local function: distance of a point of labels from the first element of a walk's batch.
fn place(f: &mut Function, name: &str, labels: &[LabelId], walk: &Walk) {
    f.body.add(format!("const auto at_{name} = [&](i64 p) {{"));
    f.labels(labels, "p");
    let walk = Walk {
        base: 0,
        steps: labels.iter().map(|l| (*l, walk.step(*l))).collect(),
    };
    f.body.add("(void)p;");
    let text = walk.expression(f, name);
    f.body.add(format!("return {text};"));
    f.body.add("};");
}

/// Labels that lie in all three matrices as one axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: i64,
    /// In A, B and C.
    steps: [i64; 3],
}

const ONE: Axis = Axis {
    extent: 1,
    steps: [0; 3],
};

/// Slow to fast by their steps in matrix `by`; the fastest ones that are one axis, and the others.
fn fastest(mut axes: Vec<Axis>, by: usize) -> (Axis, Vec<Axis>) {
    axes.sort_by_key(|a| std::cmp::Reverse(a.steps[by].abs()));
    let mut joined = axes.pop().unwrap_or(ONE);
    while let Some(slower) = axes.last() {
        match joined_with(slower, &joined) {
            Some(axis) => joined = axis,
            None => break,
        }
        axes.pop();
    }
    (joined, axes)
}

fn joined_with(slower: &Axis, faster: &Axis) -> Option<Axis> {
    let follows = (0..3).all(|w| slower.steps[w] == faster.steps[w] * faster.extent);
    follows.then_some(Axis {
        extent: slower.extent * faster.extent,
        steps: faster.steps,
    })
}

/// The longest axis that some of them are, and the others.
fn largest(mut axes: Vec<Axis>) -> (Axis, Vec<Axis>) {
    axes.sort_by_key(|a| std::cmp::Reverse(a.steps[2].abs()));
    let mut joined: Vec<Axis> = Vec::new();
    for axis in axes {
        match joined.last().and_then(|slower| joined_with(slower, &axis)) {
            Some(one) => *joined.last_mut().expect("it is joined with it") = one,
            None => joined.push(axis),
        }
    }
    let longest = (0..joined.len()).max_by_key(|&n| joined[n].extent);
    let axis = longest.map_or(ONE, |n| joined.remove(n));
    (axis, joined)
}

/// Every point of some axes, from `start` on; `None` if there are too many.
fn points(axes: &[Axis], start: [i64; 3]) -> Option<Vec<[i64; 3]>> {
    let mut all = vec![start];
    for axis in axes {
        if all.len() as i64 * axis.extent > PRODUCTS as i64 {
            return None;
        }
        let along = |at: &[i64; 3]| {
            let at = *at;
            (0..axis.extent).map(move |i| [0, 1, 2].map(|w| at[w] + i * axis.steps[w]))
        };
        all = all.iter().flat_map(along).collect();
    }
    Some(all)
}
