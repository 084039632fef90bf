//! Every scalar function against the table's f64 value, at special values and on a grid.

use eindecomp_core::ein::scalar::{DTypeRule, SCALARS};

use super::*;

/// Relative bound in units of f32's ε (2⁻²³), beside an absolute one of the least normal number.
fn ulps(name: &str) -> f64 {
    match name {
        "pow" | "sin" | "cos" => 1.0,
        "exp" | "log" | "log1p" | "tanh" | "erf" => 2.0,
        "sigmoid" | "softplus" | "silu" => 4.0,
        "gelu" | "gelu_tanh" => 64.0,
        _ => 1.0,
    }
}

/// Errors below this are none: sigmoid is 0 where e^-x is infinite; the fit of erfc behind gelu is
/// relative to 1, where an f32 erf in the table's own formula would be off by 1e-7.
fn nothing(name: &str) -> f64 {
    match name {
        "sigmoid" | "silu" => 1e-36,
        "gelu" | "gelu_tanh" => 2e-8,
        _ => f64::from(f32::MIN_POSITIVE) * f64::from(f32::EPSILON),
    }
}

fn grid() -> Vec<f64> {
    let mut grid = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1e-10,
        -1e-10,
        1e-38,
        -1e-38,
        1e-42,
        88.0,
        88.7,
        89.0,
        -87.5,
        -88.0,
        -103.0,
        -105.0,
        1e30,
        -1e30,
        0.625,
        0.9277,
        1.3125,
    ];
    grid.extend((-2000..2000).map(|i| f64::from(i) * 0.0101));
    grid.extend(
        (-300..300)
            .map(|i| f64::from(i).exp2() * f64::from(i % 7 + 1))
            .filter(|x| x.abs() < 1e38),
    );
    grid.iter().map(|&x| f64::from(x as f32)).collect()
}

#[test]
fn every_function_on_a_grid() {
    let xs = grid();
    for row in SCALARS {
        let f = ScalarFn::from_name(row.name, row.arity).unwrap();
        let Some(value) = row.float else { continue };
        for dtype in [DType::F32, DType::F64] {
            let mut c = einsum("i->i", &[('i', xs.len())], dtype);
            c.inputs = vec![(dtype, vec![xs.len()]); row.arity];
            c.operands = (0..row.arity as u32)
                .map(|n| Operand {
                    node: NodeId(n),
                    index: vec![ix(0)],
                    otherwise: None,
                })
                .collect();
            let turned = |by: usize| {
                let mut xs = xs.clone();
                xs.rotate_left(by);
                xs
            };
            c.data = (0..row.arity).map(|n| Some(turned(n * 1013))).collect();
            c.body = Expr::call(f, (0..row.arity).map(Expr::Operand).collect::<Vec<_>>());
            let bools = matches!(
                row.rule,
                DTypeRule::Compare | DTypeRule::FloatToBool | DTypeRule::Logic
            );
            c.dtype = if bools { DType::Bool } else { dtype };
            let got = c.run(&[1], false).unwrap();
            let args: Vec<Vec<f64>> = (0..row.arity).map(|n| c.values(n)).collect();
            let epsilon = if dtype == DType::F32 {
                f64::from(f32::EPSILON)
            } else {
                f64::EPSILON
            };
            let bound = if dtype == DType::F32 {
                ulps(row.name)
            } else {
                1.0
            };
            let mut worst = (0.0, 0.0, 0.0, 0.0);
            for i in 0..xs.len() {
                let at: Vec<f64> = args.iter().map(|a| a[i]).collect();
                let exact = value(&at);
                let want = if dtype == DType::F32 {
                    f64::from(exact as f32)
                } else {
                    exact
                };
                let g = got[i];
                if g == want || (g.is_nan() && want.is_nan()) {
                    continue;
                }
                let error = ((g - exact).abs() - nothing(row.name)) / (exact.abs() * epsilon);
                if error > worst.0 || error.is_nan() {
                    worst = (error, at[0], g, exact);
                }
            }
            let (error, x, g, w) = worst;
            assert!(
                error <= bound,
                "{} {dtype}: {error} ulps at {x}: {g}, not {w}",
                row.name
            );
        }
    }
}
