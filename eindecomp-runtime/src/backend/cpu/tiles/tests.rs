//! The engine against loops, for every pair of operators, odd sizes, strides, infinities and NaN.

use proptest::prelude::*;

use super::*;

const TIMES: [Times; 5] = [
    Times::Product,
    Times::Sum,
    Times::Difference,
    Times::SquaredDifference,
    Times::AbsoluteDifference,
];
const PLUS: [Plus; 3] = [Plus::Sum, Plus::Max, Plus::Min];

fn times(times: Times, a: f64, b: f64) -> f64 {
    match times {
        Times::Product => a * b,
        Times::Sum => a + b,
        Times::Difference => a - b,
        Times::SquaredDifference => (a - b) * (a - b),
        Times::AbsoluteDifference => (a - b).abs(),
    }
}

/// A matrix in a buffer, rows or columns together, with gaps.
#[derive(Clone, Debug)]
struct Stored<T> {
    data: Vec<T>,
    rows: Vec<isize>,
    columns: Vec<isize>,
}

impl<T: Element + From<f32>> Stored<T> {
    fn new(
        m: usize,
        n: usize,
        transposed: bool,
        gap: usize,
        value: impl Fn(usize) -> f32,
    ) -> Stored<T> {
        let places = |count: usize, step: usize| (0..count).map(|i| (i * step) as isize).collect();
        let (inner, outer) = (1 + gap, (if transposed { m } else { n }) * (1 + gap) + 3);
        let (row, column) = if transposed {
            (inner, outer)
        } else {
            (outer, inner)
        };
        Stored {
            data: (0..m * row + n * column).map(|i| value(i).into()).collect(),
            rows: places(m, row),
            columns: places(n, column),
        }
    }

    fn at(&self, i: usize, j: usize) -> T {
        self.data[(self.rows[i] + self.columns[j]) as usize]
    }

    fn matrix(&self) -> Matrix<'_, *const T> {
        Matrix {
            start: self.data.as_ptr(),
            rows: &self.rows,
            columns: &self.columns,
        }
    }
}

/// Small numbers, and now and then one of `odd`.
fn value(seed: u64, odd: Option<f32>) -> impl Fn(usize) -> f32 {
    move |i| {
        let x = (i as u64 + 1)
            .wrapping_mul(seed | 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> 40;
        match odd {
            Some(odd) if x.is_multiple_of(97) => odd,
            _ => (x % 41) as f32 / 8.0 - 2.5,
        }
    }
}

fn check<T: Element + From<f32> + Into<f64> + std::fmt::Debug>(
    (ring, [m, n, k], shape, seed): (Ring, [usize; 3], [(bool, usize); 3], u64),
    odd: Option<f32>,
    first: bool,
    tolerance: f64,
) {
    check_run::<T>(
        (ring, [m, n, k], shape, seed),
        odd,
        first,
        tolerance,
        |set, a, b, c| {
            // SAFETY: the places of a `Stored` are inside its data, each its own; the set is there.
            unsafe { multiply(set, ring, a, b, c, first, &mut Panels::default()) }
        },
    );
}

/// Few rows, where sums run along columns or depth.
fn check_by<T: Element + From<f32> + Into<f64> + std::fmt::Debug>(
    problem: (Ring, [usize; 3], [(bool, usize); 3], u64),
    odd: Option<f32>,
    tolerance: f64,
    along: Along,
) {
    check_run::<T>(problem, odd, true, tolerance, |set, a, b, c| {
        // SAFETY: as above.
        unsafe { multiply_few(set, along, a, b, c, &mut Panels::default()) }
    });
}

fn check_run<T: Element + From<f32> + Into<f64> + std::fmt::Debug>(
    (ring, [m, n, k], shape, seed): (Ring, [usize; 3], [(bool, usize); 3], u64),
    odd: Option<f32>,
    first: bool,
    tolerance: f64,
    run: impl Fn(Set, &Matrix<*const T>, &Matrix<*const T>, &Matrix<*mut T>),
) {
    let [a, b, c] = shape;
    let a = Stored::<T>::new(m, k, a.0, a.1, value(seed, odd));
    let b = Stored::<T>::new(k, n, b.0, b.1, value(seed ^ 77, odd));
    let before = Stored::<T>::new(m, n, c.0, c.1, value(seed ^ 99, None));
    for set in Set::all() {
        let mut c = before.clone();
        let target = Matrix {
            start: c.data.as_mut_ptr(),
            rows: &c.rows,
            columns: &c.columns,
        };
        run(set, &a.matrix(), &b.matrix(), &target);
        let mut untouched = before.data.clone();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).map(|p| times(ring.times, a.at(i, p).into(), b.at(p, j).into()));
            let start = (!first).then(|| before.at(i, j).into());
            let want = start
                .into_iter()
                .chain(terms)
                .reduce(|x, y| match ring.plus {
                    Plus::Sum => x + y,
                    Plus::Max => super::super::math::max(x, y),
                    Plus::Min => super::super::math::min(x, y),
                });
            let (got, want): (f64, f64) = (c.at(i, j).into(), want.expect("a term"));
            let same = got == want || got.is_nan() && want.is_nan();
            let near = (got - want).abs() <= tolerance * k as f64;
            assert!(
                same || near,
                "{set:?} {ring:?} [{i}, {j}] is {got}, not {want}"
            );
            untouched[(c.rows[i] + c.columns[j]) as usize] = c.at(i, j);
        }
        // Bits, since NaN is not equal to itself.
        let bits = bytemuck::cast_slice::<T, u8>;
        assert_eq!(bits(&untouched), bits(&c.data), "{set:?} writes beside C");
    }
}

fn problem() -> impl Strategy<Value = (Ring, [usize; 3], [(bool, usize); 3], u64)> {
    let ring = (0..TIMES.len(), 0..PLUS.len()).prop_map(|(t, p)| Ring {
        times: TIMES[t],
        plus: PLUS[p],
    });
    let size = [1..50usize, 1..70, 1..40];
    let shape = [(); 3].map(|()| (any::<bool>(), 0..2usize));
    (ring, size, shape, any::<u64>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    #[test]
    fn numbers(problem in problem(), first in any::<bool>()) {
        check::<f32>(problem, None, first, 1e-5);
        check::<f64>(problem, None, first, 1e-12);
    }

    #[test]
    fn infinities_and_nan(problem in problem(), nan in any::<bool>()) {
        let odd = if nan { f32::NAN } else { f32::INFINITY };
        check::<f32>(problem, Some(odd), true, 1e-5);
        check::<f64>(problem, Some(odd), true, 1e-12);
    }
}

fn check_log_sum_exp<T: Element + From<f32> + Into<f64>>(
    (ring, [m, n, k], [a, b, c], seed): (Ring, [usize; 3], [(bool, usize); 3], u64),
    odd: Option<f32>,
    scale: f32,
    tolerance: f64,
) {
    let scaled = |seed| move |i| scale * value(seed, odd)(i);
    let a = Stored::<T>::new(m, k, a.0, a.1, scaled(seed));
    let b = Stored::<T>::new(k, n, b.0, b.1, scaled(seed ^ 77));
    for set in Set::all() {
        let mut c = Stored::<T>::new(m, n, c.0, c.1, value(seed ^ 99, None));
        let target = Matrix {
            start: c.data.as_mut_ptr(),
            rows: &c.rows,
            columns: &c.columns,
        };
        let (left, right, mut panels) = (a.matrix(), b.matrix(), Panels::default());
        // SAFETY: as in `check`.
        unsafe { log_sum_exp(set, ring.times, &left, &right, &target, &mut panels) };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = || (0..k).map(|p| times(ring.times, a.at(i, p).into(), b.at(p, j).into()));
            let largest = terms().reduce(super::super::math::max).expect("a term");
            let sum: f64 = terms().map(|x| (x - largest).exp()).sum();
            let want = if largest.is_finite() {
                largest + sum.ln()
            } else {
                largest
            };
            let got: f64 = c.at(i, j).into();
            let same = got == want || got.is_nan() && want.is_nan();
            let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
            assert!(
                same || near,
                "{set:?} {ring:?} [{i}, {j}] is {got}, not {want}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn few_rows((_, [m, n, k], [a, b, c], seed) in problem(), along in any::<bool>()) {
        let along = if along { Along::Columns } else { Along::Depth };
        let product = Ring { times: Times::Product, plus: Plus::Sum };
        check_by::<f32>((product, [m % 5 + 1, n, k], [a, b, c], seed), None, 1e-5, along);
        check_by::<f64>((product, [m % 5 + 1, n, k], [a, b, c], seed), None, 1e-12, along);
    }

    #[test]
    fn log_sum_exp_of_anything(problem in problem(), odd in 0..4usize, scale in 0..3usize) {
        // The last two make sums of which the largest powers are 0, or lost their digits.
        let scale = [1.0, 5.0, 60.0][scale];
        let odd = [None, Some(f32::NAN), Some(f32::INFINITY), Some(f32::NEG_INFINITY)][odd];
        check_log_sum_exp::<f32>(problem, odd, scale, 2e-6);
        check_log_sum_exp::<f64>(problem, odd, scale, 1e-14);
    }
}

/// More than one block along each dimension.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn blocks() {
    let ring = |times, plus| Ring { times, plus };
    let shape = [(false, 0), (true, 0), (false, 0)];
    for ring in [ring(Times::Product, Plus::Sum), ring(Times::Sum, Plus::Max)] {
        check::<f32>((ring, [250, 1030, 300], shape, 5), None, false, 1e-5);
        check_log_sum_exp::<f32>((ring, [250, 1030, 30], shape, 5), None, 60.0, 2e-6);
    }
}

/// An element is the same whatever is computed beside it.
#[test]
fn bits_do_not_depend_on_the_cut() {
    let ring = Ring {
        times: Times::Product,
        plus: Plus::Sum,
    };
    // So far apart that some sums of exponentials are products of powers, and some are not.
    let a = Stored::<f32>::new(31, 290, false, 0, |i| 12.0 * value(3, None)(i));
    let b = Stored::<f32>::new(290, 45, false, 0, |i| 12.0 * value(4, None)(i));
    let product = |exponentials: bool, rows: Range<usize>, columns: Range<usize>| {
        let mut c = vec![0.0_f32; 31 * 45];
        let (c_rows, c_columns): (Vec<isize>, Vec<isize>) =
            ((0..31).map(|i| i * 45).collect(), (0..45).collect());
        let left = Matrix {
            rows: &a.rows[rows.clone()],
            ..a.matrix()
        };
        let right = Matrix {
            columns: &b.columns[columns.clone()],
            ..b.matrix()
        };
        let target = Matrix {
            start: c.as_mut_ptr(),
            rows: &c_rows[rows],
            columns: &c_columns[columns],
        };
        let (set, mut panels) = (Set::best(), Panels::default());
        // SAFETY: the places are inside the data, each its own.
        unsafe {
            match exponentials {
                true => log_sum_exp(set, Times::Sum, &left, &right, &target, &mut panels),
                false => multiply(set, ring, &left, &right, &target, true, &mut panels),
            }
        }
        c
    };
    for exponentials in [false, true] {
        let whole = product(exponentials, 0..31, 0..45);
        let mut parts = vec![0.0_f32; whole.len()];
        for rows in [0..5, 5..18, 18..31] {
            for columns in [0..33, 33..45] {
                let part = product(exponentials, rows.clone(), columns);
                for (sum, x) in parts.iter_mut().zip(part) {
                    *sum += x;
                }
            }
        }
        assert_eq!(whole, parts);
    }
}

/// What was packed once gives the bits of what is packed in the product, for any whole panels of it, also beside
/// numbers that are not finite.
#[test]
fn packed_once_is_packed_anew() {
    let shape = [(false, 0), (true, 0), (false, 0)];
    let rings = TIMES
        .iter()
        .flat_map(|&times| PLUS.map(|plus| Ring { times, plus }));
    for (ring, odd) in rings.zip(
        [None, Some(f32::NAN), Some(f32::INFINITY)]
            .into_iter()
            .cycle(),
    ) {
        for set in Set::all() {
            let width = panel_columns::<f32>(set, ring);
            // The last panel is a narrow one.
            let (m, n, k) = (7, 5 * width - 3, if cfg!(miri) { 3 } else { 2 * DEPTH + 3 });
            let a = Stored::<f32>::new(m, k, shape[0].0, shape[0].1, value(3, None));
            let b = Stored::<f32>::new(k, n, shape[1].0, shape[1].1, value(4, odd));
            let (c_rows, c_columns): (Vec<isize>, Vec<isize>) = (
                (0..m).map(|i| (i * n) as isize).collect(),
                (0..n as isize).collect(),
            );
            let mut panels = Panels::default();
            // SAFETY: the places are inside the data, each its own; the set is there; all of B was packed.
            unsafe {
                let all = pack_all(set, ring, &b.matrix(), &mut panels);
                assert_eq!(all.len(), n * k);
                let columns = width..n;
                let right = Matrix {
                    columns: &b.columns[columns.clone()],
                    ..b.matrix()
                };
                let [mut anew, mut once] = [(); 2].map(|()| vec![0.0_f32; m * n]);
                let target = |c: &mut Vec<f32>| Matrix {
                    start: c.as_mut_ptr(),
                    rows: &c_rows,
                    columns: &c_columns[columns.clone()],
                };
                multiply(
                    set,
                    ring,
                    &a.matrix(),
                    &right,
                    &target(&mut anew),
                    true,
                    &mut panels,
                );
                let packed = Packed {
                    start: all.as_ptr(),
                    lanes: n,
                    first: width,
                };
                let to = target(&mut once);
                multiply_packed(set, ring, &a.matrix(), (&right, packed), &to, &mut panels);
                let bits = bytemuck::cast_slice::<f32, u32>;
                assert_eq!(bits(&anew), bits(&once), "{set:?} {ring:?}");
            }
        }
    }
}
