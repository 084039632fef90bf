//! Wrong inputs at run, and data that is hard to compute with.

use std::collections::BTreeMap;

use eindecomp::{Error, ShapeError, ein};
use eindecomp_runtime::{Data, RunError, Tensor};
use ndarray::{arr1, arr2};

use crate::bad_input::{block, dims, f32s, loaded, named, ramp, refused, session, within};

ein! {
    /// Rows of a table.
    pub fn lookup<dim S, dim V, dim D>(ids: u32[S], table: f32[V, D]) -> f32[S, D] {
        let rows[s, d] = table[ids[s], d];
        rows
    }
}

fn shape_errors(error: Error) -> Vec<ShapeError> {
    match error {
        Error::Shapes(errors) => errors,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_named_and_the_program_still_runs() {
    within(|| {
        let mut program = loaded(&session(2));
        let good = named([("x", ramp(&[2, 3]))]);
        let before = program.run(&good).unwrap();
        let long = Tensor::new(vec![2, 3], Data::I64(vec![0; 6])).unwrap();
        let x = || ramp(&[2, 3]);
        let cases = [
            (BTreeMap::new(), "input `x` is missing"),
            (named([("x", x()), ("z", x())]), "there is no input `z`"),
            (named([("x", x()), ("w", x())]), "there is no input `w`"),
            (
                named([("x", long)]),
                "`x` is i64, but is declared f32[B, K]",
            ),
            (
                named([("x", ramp(&[6]))]),
                "`x` has 1 axes, but is declared f32[B, K]",
            ),
        ];
        for (inputs, message) in cases {
            let errors = shape_errors(program.run(&inputs).unwrap_err());
            assert_eq!(errors[0].to_string(), message);
            assert_eq!(program.run(&good).unwrap(), before);
        }
        // an extent that the weights fix
        assert!(program.run(&named([("x", ramp(&[2, 5]))])).is_err());
        assert_eq!(program.run(&good).unwrap(), before);
        // outputs given by the caller
        let wrong = || Tensor::new(vec![4, 2], Data::F32(vec![0.0; 8])).unwrap();
        for outputs in [&mut [][..], &mut [wrong()], &mut [wrong(), wrong()]] {
            assert!(matches!(
                program.run_into(&good, outputs),
                Err(Error::Run(_))
            ));
        }
        assert_eq!(program.run(&good).unwrap(), before);
    });
}

#[test]
fn a_run_without_weights_is_an_error() {
    within(|| {
        let sizes = dims(&[("B", 2), ("K", 3), ("N", 4)]);
        let mut program = session(2)
            .compile_graph(crate::bad_input::product(), sizes)
            .unwrap();
        let error = program.run(&named([("x", ramp(&[2, 3]))])).unwrap_err();
        assert!(matches!(error, Error::Run(RunError::NotLoaded)));
    });
}

#[test]
fn dims_that_break_a_clause_are_refused() {
    within(|| {
        let text = "fn f<dim B, dim H>(x: f32[B]) -> f32[B / H, H] where B % H == 0 {
            let y[i, j in H] = x[(i, j)];
            y
        }";
        let error = refused(&session(2), block(text, "f"), dims(&[("B", 7), ("H", 2)]));
        assert!(matches!(&error, Error::Bind(_)), "{error}");
        let error = refused(&session(2), block(text, "f"), dims(&[("B", 7), ("H", 0)]));
        assert!(matches!(&error, Error::Bind(_)), "{error}");
        let error = refused(&session(2), block(text, "f"), dims(&[("B", 8)]));
        assert!(matches!(&error, Error::Bind(_)), "{error}");
        // the same at run time, and the program is as before
        let mut program = session(2)
            .compile_graph(block(text, "f"), dims(&[("B", 8), ("H", 2)]))
            .unwrap();
        let good = named([("x", ramp(&[8]))]);
        let before = program.run(&good).unwrap();
        let error = program.run(&named([("x", ramp(&[7]))])).unwrap_err();
        assert!(matches!(&error, Error::Bind(_)), "{error}");
        assert_eq!(program.run(&good).unwrap(), before);
    });
}

#[test]
fn shapes_and_clauses_that_fail_are_told_at_once_with_the_dims() {
    within(|| {
        let text = "fn f<dim B, dim S, dim D, dim H, dim P>(x: f32[B, S, D], y: f32[B, H], p: f32[P, D]) -> f32[B, S, D]
            where D % H == 0, S <= P {
            let z[b, s, d] = x[b, s, d] + p[0 + s, d] + y[b, d / (D / H)];
            z
        }";
        let sizes = |s, d, h| dims(&[("B", 2), ("S", s), ("D", d), ("H", h), ("P", 32)]);
        let says = |error: Error, lines: &[&str]| {
            let text = error.to_string();
            assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), lines);
        };
        let (divides, fits) = (
            "  `D % H == 0` does not hold at D = 10, H = 3: 1 against 0 (`where` clause in block `f`)",
            "  `S <= P` does not hold at P = 32, S = 48: 48 against 32 (`where` clause in block `f`)",
        );
        let error = refused(&session(2), block(text, "f"), sizes(48, 10, 3));
        says(error, &[divides, fits]);
        let mut program = session(2)
            .compile_graph(block(text, "f"), sizes(8, 8, 4))
            .unwrap();
        let inputs = |x: [usize; 3], y: [usize; 2], p: [usize; 2]| {
            named([("x", ramp(&x)), ("y", ramp(&y)), ("p", ramp(&p))])
        };
        let before = program.run(&inputs([2, 8, 8], [2, 4], [32, 8])).unwrap();
        let error = program
            .run(&inputs([2, 48, 10], [2, 3], [32, 10]))
            .unwrap_err();
        says(error, &[divides, fits]);
        // B is in dispute, but what the clauses say is not.
        let error = program
            .run(&inputs([2, 48, 10], [4, 3], [32, 10]))
            .unwrap_err();
        let b = "  axis 0 (`B`) of `y` is 4, but must be 2: `B` is 2 by axis 0 of `x`";
        says(error, &[b, divides, fits]);
        // D is in dispute, so nothing is said of what depends on it.
        let error = program
            .run(&inputs([2, 48, 10], [2, 3], [32, 9]))
            .unwrap_err();
        let d = "  axis 1 (`D`) of `p` is 9, but must be 10: `D` is 10 by axis 2 of `x`";
        says(error, &[d, fits]);
        assert_eq!(
            program.run(&inputs([2, 8, 8], [2, 4], [32, 8])).unwrap(),
            before
        );
    });
}

const LOOKUP: &str =
    "fn f<dim S, dim V, dim D>(ids: i64[S], table: f32[V, D]) -> (f32[S, D], f32[S]) {
    let rows[s, d] = table[ids[s], d];
    let total[s] = sum[d] rows[s, d];
    (rows, total)
}";

#[test]
fn an_index_out_of_range_is_an_error_with_its_place() {
    for devices in [1, 2, 3, 8] {
        within(move || {
            let sizes = dims(&[("S", 4), ("V", 5), ("D", 3)]);
            let mut program = session(devices)
                .compile_graph(block(LOOKUP, "f"), sizes)
                .unwrap();
            let inputs = |ids: [i64; 4]| {
                let ids = Tensor::new(vec![4], Data::I64(ids.to_vec())).unwrap();
                named([("ids", ids), ("table", ramp(&[5, 3]))])
            };
            let before = program.run(&inputs([0, 4, 2, 2])).unwrap();
            for bad in [5, -1, i64::MAX, i64::MIN] {
                let error = program.run(&inputs([0, 1, bad, 2])).unwrap_err();
                assert!(
                    matches!(&error, Error::Run(RunError::Kernel { statement, .. }) if &**statement == "rows")
                );
                let mut text = error.to_string();
                if let Some(source) = std::error::Error::source(&error) {
                    text += &source.to_string();
                }
                assert!(
                    text.contains(&format!("index {bad} is outside axis 0 of `table`")),
                    "{text}"
                );
                assert_eq!(program.run(&inputs([0, 4, 2, 2])).unwrap(), before);
            }
        });
    }
}

/// The caller's arrays come back from a run that failed.
#[test]
fn outputs_outlive_an_error() {
    within(|| {
        let sizes = lookup::Dims { s: 2, v: 3, d: 1 };
        let mut compiled = session(2).compile(lookup::graph(), sizes).unwrap();
        let inputs = |ids: [u32; 2]| lookup::Inputs {
            ids: arr1(&ids),
            table: arr2(&[[1.0], [2.0], [3.0]]),
        };
        let mut outputs = lookup::Outputs {
            rows: arr2(&[[7.0], [8.0]]),
        };
        compiled.run_into(inputs([0, 9]), &mut outputs).unwrap_err();
        assert_eq!(outputs.rows.shape(), [2, 1]);
        compiled.run_into(inputs([2, 0]), &mut outputs).unwrap();
        assert_eq!(outputs.rows, arr2(&[[3.0], [1.0]]));
    });
}

/// NaN where the reference has NaN, infinities where it has them.
#[test]
fn nan_and_infinite_data_are_computed_with() {
    use crate::support::{to_reference, to_runtime};
    let text = "fn f<dim B, dim K>(x: f32[B, K]) -> (f32[B], f32[B], f32[B], i64[B], f32[B, K], f32[B, B], f32[B, K]) {
        let total[b] = sum[k] x[b, k];
        let most[b] = max[k] x[b, k];
        let least[b] = min[k] x[b, k];
        let place[b] = argmax[k] x[b, k];
        let soft[b, k] = exp(x[b, k] - most[b]);
        let gram[a, b] = sum[k] x[a, k] * x[b, k];
        let some[b, k] = if x[b, k] > 0.0 { x[b, k] } else { 0.0 };
        (total, most, least, place, soft, gram, some)
    }";
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for devices in [1, 2, 3, 4, 8] {
        within(move || {
            let sizes = dims(&[("B", 7), ("K", 5)]);
            let graph = block(text, "f");
            let mut program = session(devices)
                .compile_graph(graph.clone(), sizes.clone())
                .unwrap();
            #[rustfmt::skip]
            let x = f32s(&[7, 5], [
                1.0, nan, 2.0, 3.0, 4.0,      inf, 1.0, 2.0, 3.0, 4.0,
                -inf, 1.0, 2.0, 3.0, 4.0,     inf, -inf, 2.0, 3.0, 4.0,
                nan, nan, nan, nan, nan,      -inf, -inf, -inf, -inf, -inf,
                0.0, -0.0, 1.0, inf, nan,
            ]);
            let bound = graph.bind(&sizes).unwrap();
            let inputs = [("x".into(), to_reference(&x))].into();
            let want = eindecomp_core::reference::run(&bound, &inputs).unwrap();
            let got = program.run(&named([("x", x)])).unwrap();
            for (output, want) in graph.outputs().iter().zip(want) {
                let got = &got[&*output.name];
                let want = to_runtime(&want);
                let near = match (got.data(), want.data()) {
                    (Data::F32(g), Data::F32(w)) => g.iter().zip(w).all(|(g, w)| {
                        g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-5 * w.abs()
                    }),
                    (g, w) => g == w,
                };
                assert!(
                    near,
                    "{devices} devices, {}: {got:?}, not {want:?}",
                    output.name
                );
            }
        });
    }
}
