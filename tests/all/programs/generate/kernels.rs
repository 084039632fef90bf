//! Calls of `extern fn`.

use eindecomp_core::ein::DType;

use super::value::{ROUGHEST, limit, rounding};
use super::{LARGEST_SPACE, Maker, Tensor};

impl Maker<'_> {
    /// `let y = kernel(x);`
    pub(super) fn kernel(&mut self) {
        if (0..8).all(|_| self.kernel_of_any().is_none()) {
            self.statement(None);
        }
    }

    /// A call of some kernel, if there is something to give it.
    fn kernel_of_any(&mut self) -> Option<()> {
        let able = |t: &&Tensor| t.bound.is_finite() && !t.nan && t.dtype != DType::Bool;
        let tensors: Vec<Tensor> = self.tensors.iter().filter(able).cloned().collect();
        if tensors.is_empty() {
            return None;
        }
        let (x, y) = (self.rng.one_of(&tensors), self.rng.one_of(&tensors));
        let (dtype, rank) = (x.dtype, x.axes.len());
        let last = x.axes.last().map_or(0, |&a| self.value(a));
        let plain = |t: &Tensor| Tensor {
            ids: false,
            state: false,
            ..t.clone()
        };
        let floats = dtype.is_float();
        let (declared, name, args, made) = match self.rng.below(7) {
            0 if floats && rank == 2 && x.error == 0.0 && (last >= 2 || self.rng.chance(8)) => {
                let best = Tensor {
                    axes: vec![x.axes[0], 1],
                    ..plain(&x)
                };
                let places = Tensor {
                    dtype: DType::I64,
                    bound: last.max(1) as f64,
                    ..best.clone()
                };
                (
                    "extern fn best<dim B, dim N, T: Float>(x: T[B, N]) -> (T[B, 2], i64[B, 2]) splits(B);",
                    "best",
                    vec![x],
                    vec![best, places],
                )
            }
            1 if floats && rank >= 1 && x.bound * (last + 1) as f64 <= limit(dtype) => {
                let start: Vec<Tensor> = tensors
                    .iter()
                    .filter(|t| {
                        t.dtype == dtype && t.axes == x.axes[..rank - 1] && t.bound <= x.bound
                    })
                    .cloned()
                    .collect();
                if start.is_empty() {
                    return None;
                }
                let start = self.rng.one_of(&start);
                let n = (last + 1) as f64;
                let error = (x.error.max(start.error)) * n;
                let error = if error > 0.0 {
                    error + n * rounding(x.bound * n)
                } else {
                    0.0
                };
                let sums = Tensor {
                    bound: x.bound * n,
                    error,
                    ..plain(&x)
                };
                (
                    "extern fn scan<dim ..L, dim N, T: Float>(x: T[..L, N], start: T[..L]) -> T[..L, N] splits(L);",
                    "scan",
                    vec![x, start],
                    vec![sums],
                )
            }
            2 if floats && rank >= 1 => {
                let sorted = plain(&x);
                (
                    "extern fn sorted<dim ..L, dim N, T: Float>(x: T[..L, N]) -> T[..L, N] splits(L);",
                    "sorted",
                    vec![x],
                    vec![sorted],
                )
            }
            3 if dtype == DType::F32
                && y.dtype == dtype
                && !self.simple
                && rank == 1
                && y.axes.len() == 1 =>
            {
                let [a, b] = [x.axes[0], y.axes[0]];
                let text = format!("{} + {}", self.factor(a), self.factor(b));
                let joined = Tensor {
                    axes: vec![self.extent(&text, self.value(a) + self.value(b))],
                    bound: x.bound.max(y.bound),
                    error: x.error.max(y.error),
                    ..plain(&x)
                };
                (
                    "extern fn joined<dim N, dim M>(x: f32[N], y: f32[M]) -> f32[N + M] splits();",
                    "joined",
                    vec![x, y],
                    vec![joined],
                )
            }
            4 if dtype == DType::I64 && rank == 2 => {
                let turned = Tensor {
                    axes: vec![x.axes[1], x.axes[0]],
                    ..plain(&x)
                };
                (
                    "extern fn turned<dim N, dim M>(x: i64[N, M]) -> i64[M, N] splits(N, M);",
                    "turned",
                    vec![x],
                    vec![turned],
                )
            }
            5 if dtype == DType::F64
                && rank == 2
                && x.bound * last.max(1) as f64 <= limit(dtype) =>
            {
                let n = last.max(1) as f64;
                let error = if x.error > 0.0 {
                    x.error * n + n * rounding(x.bound * n)
                } else {
                    0.0
                };
                let (rows, columns) = (x.axes[0], x.axes[1]);
                let space = self.value(rows) * self.value(columns) * self.value(columns);
                if space > LARGEST_SPACE {
                    return None;
                }
                let total = Tensor {
                    axes: vec![rows],
                    bound: x.bound * n,
                    error,
                    ..plain(&x)
                };
                let rest = Tensor {
                    axes: vec![columns, rows],
                    ..total.clone()
                };
                (
                    "extern fn totals<dim N, dim M>(x: f64[N, M]) -> (f64[N], f64[M, N]) splits(N);",
                    "totals",
                    vec![x],
                    vec![total, rest],
                )
            }
            6 if dtype.is_int() && 2.0 * x.bound <= limit(dtype) => {
                let by = Tensor {
                    name: "2".into(),
                    ..plain(&x)
                };
                let scaled = Tensor {
                    bound: 2.0 * x.bound,
                    ..plain(&x)
                };
                (
                    "extern fn scaled<dim ..L, T: Int>(x: T[..L], by: T) -> T[..L] splits(L);",
                    "scaled",
                    vec![x, by],
                    vec![scaled],
                )
            }
            _ => return None,
        };
        if made.iter().any(|t| t.error > ROUGHEST) {
            return None;
        }
        let declared = declared.to_owned();
        if !self.items.contains(&declared) {
            self.items.push(declared);
        }
        self.mark("a kernel");
        let mut given = Vec::new();
        for arg in &args {
            given.push(self.valued(arg).name);
        }
        let mut named = Vec::new();
        for t in made {
            let name = self.fresh("t");
            named.push(Tensor { name, ..t });
        }
        let mut names: Vec<String> = named.iter().map(|t| t.name.clone()).collect();
        if named.len() > 1 && self.rng.chance(4) {
            let unread = self.rng.below(names.len());
            names[unread] = "_".into();
            named.remove(unread);
        }
        let names = match names.len() {
            1 => names[0].clone(),
            _ => format!("({})", names.join(", ")),
        };
        self.line(&format!("let {names} = {name}({});", given.join(", ")));
        self.tensors.extend(named);
        Some(())
    }
}
