use super::*;
use crate::graph::EinGraph;

/// Runs one statement over f64 inputs `x`, `y` and the i64 input `n`.
fn eval(
    statement: &str,
    x: (&[usize], &[f64]),
    y: (&[usize], &[f64]),
    n: (&[usize], &[i64]),
) -> Result<Vec<f64>, String> {
    let shape = |s: &[usize]| {
        s.iter()
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let text = format!(
        "eingraph {{ %0 \"x\" = input f64[{}] %1 \"y\" = input f64[{}] %2 \"n\" = input i64[{}]
        %3 \"r\" = {statement} output \"r\" = %3 }}",
        shape(x.0),
        shape(y.0),
        shape(n.0)
    );
    let graph = EinGraph::parse(&text).map_err(|e| e.to_string())?;
    let graph = graph.bind(&BTreeMap::new()).map_err(|e| format!("{e:?}"))?;
    let float = |(shape, data): (&[usize], &[f64])| {
        RefTensor::from_f64(DType::F64, shape.to_vec(), data).map_err(|e| e.to_string())
    };
    let n = RefTensor::from_i64(DType::I64, n.0.to_vec(), n.1).map_err(|e| e.to_string())?;
    let inputs = BTreeMap::from([
        ("x".into(), float(x)?),
        ("y".into(), float(y)?),
        ("n".into(), n),
    ]);
    let outputs = run(&graph, &inputs).map_err(|e| e.to_string())?;
    Ok(outputs[0].to_f64())
}

fn of_x(statement: &str, x: &[f64]) -> Vec<f64> {
    eval(statement, (&[x.len()], x), (&[], &[0.0]), (&[], &[0])).unwrap()
}

const INF: f64 = f64::INFINITY;

#[test]
fn contraction() {
    let (x, y) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
    let s = "sum[k=2; f64] %0[i, k] * %1[k, j] -> f64[j=2, i=2]";
    let r = eval(s, (&[2, 2], &x), (&[2, 2], &y), (&[], &[0]));
    assert_eq!(r.unwrap(), [19.0, 43.0, 22.0, 50.0]);
}

#[test]
fn empty_and_hostile_folds() {
    let fold =
        |agg: &str, x: &[f64]| of_x(&format!("{agg}[i={}; f64] %0[i] -> f64[]", x.len()), x)[0];
    assert_eq!(fold("sum", &[]), 0.0);
    assert_eq!(fold("prod", &[]), 1.0);
    assert_eq!(fold("max", &[]), -INF);
    assert_eq!(fold("min", &[]), INF);
    assert_eq!(fold("logsumexp", &[]), -INF);
    assert_eq!(fold("logsumexp", &[-INF, -INF]), -INF);
    assert_eq!(fold("logsumexp", &[1e300, INF]), INF);
    assert!((fold("logsumexp", &[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-12);
    for x in [
        [f64::NAN, 1.0, 2.0],
        [1.0, f64::NAN, 2.0],
        [1.0, 2.0, f64::NAN],
    ] {
        assert!(
            ["max", "min", "sum", "logsumexp"]
                .iter()
                .all(|a| fold(a, &x).is_nan())
        );
    }
}

#[test]
fn argmax_takes_the_first() {
    let arg =
        |agg: &str, x: &[f64]| of_x(&format!("{agg}[i={}; f64] %0[i] -> i64[]", x.len()), x)[0];
    assert_eq!(arg("argmax", &[]), -1.0);
    assert_eq!(arg("argmax", &[-INF, -INF]), 0.0);
    assert_eq!(arg("argmin", &[3.0, 1.0, 1.0]), 1.0);
    assert_eq!(arg("argmax", &[3.0, f64::NAN, 9.0, f64::NAN]), 1.0);
    let second = of_x(
        "argmax[i=3; f64 where i != 2] %0[i] -> i64[]",
        &[1.0, 2.0, 3.0],
    );
    assert_eq!(second, [1.0]);
}

#[test]
fn reads_out_of_range() {
    let padded = of_x("(%0[i - 1] else -7.0) -> f64[i=4]", &[1.0, 2.0]);
    assert_eq!(padded, [-7.0, 1.0, 2.0, -7.0]);
    // The branch not taken, and the right of a false `&&`, read nothing.
    let lazy = "if(i > 0 && @0 > 1.0:f64, @0, 0.0:f64) of %0[i - 1] -> f64[i=3]";
    assert_eq!(of_x(lazy, &[1.0, 2.0]), [0.0, 0.0, 2.0]);
    let gather = "%0[%2[i], j] -> f64[i=2, j=2]";
    let x: (&[usize], &[f64]) = (&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let r = eval(gather, x, (&[], &[0.0]), (&[2], &[2, 0]));
    assert_eq!(r.unwrap(), [5.0, 6.0, 1.0, 2.0]);
    let r = eval(gather, x, (&[], &[0.0]), (&[2], &[2, 3]));
    assert_eq!(
        r.unwrap_err(),
        "`r` reads axis 0 of `x` at 3, but its extent is 3"
    );
}

#[test]
fn integers_wrap_to_their_type() {
    let s = "(%2[i] as u8) * (%2[i] as u8) / 3:u8 -> u8[i=2]";
    let r = eval(s, (&[], &[0.0]), (&[], &[0.0]), (&[2], &[16, 17]));
    assert_eq!(r.unwrap(), [0.0, 11.0]);
}

#[test]
fn f32_overflows_but_keeps_precision() {
    let x = of_x("%0[i] as f32 -> f32[i=3]", &[0.1, 1e39, -1e39]);
    assert_eq!(x, [0.1, INF, -INF]);
}

#[test]
fn inputs_must_fit() {
    let scalar: (&[usize], &[f64]) = (&[], &[0.0]);
    let r = eval("%0[i] -> f64[i=2]", (&[2], &[1.0]), scalar, (&[], &[0]));
    assert_eq!(
        r.unwrap_err(),
        "a tensor of shape [2] has 2 elements, but 1 are given"
    );
}
