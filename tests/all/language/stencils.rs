//! Stencils: heat on a plate with a cold border, and on a torus.

use eindecomp::ein;

use crate::language::{Case, Random, each};

ein! {
    /// One step, with 0 outside.
    pub fn cool<dim Y, dim X>(u: f32[Y, X], c: f32) -> f32[Y, X] {
        let v[i, j] = u[i, j] + c * ((u[i - 1, j] else 0.0) + (u[i + 1, j] else 0.0)
            + (u[i, j - 1] else 0.0) + (u[i, j + 1] else 0.0) - 4.0 * u[i, j]);
        v
    }

    /// Four steps.
    pub fn plate<dim Y, dim X>(u: f32[Y, X], c: f32) -> f32[Y, X] {
        let mut u = u;
        for s in 0..4 { u = cool(u, c); }
        u
    }

    /// Two steps on a torus.
    pub fn torus<dim Y, dim X>(u: f32[Y, X], c: f32) -> f32[Y, X] where Y >= 1, X >= 1 {
        let mut u = u;
        for s in 0..2 { u = turn(u, c); }
        u
    }

    fn turn<dim Y, dim X>(u: f32[Y, X], c: f32) -> f32[Y, X] where Y >= 1, X >= 1 {
        let v[i, j] = u[i, j] + c * (u[(i - 1) % Y, j] + u[(i + 1) % Y, j]
            + u[i, (j - 1) % X] + u[i, (j + 1) % X] - 4.0 * u[i, j]);
        v
    }
}

/// Steps over a `y` × `x` grid, where `at` says which cell a place outside is.
fn steps(
    [y, x]: [usize; 2],
    mut u: Vec<f64>,
    count: usize,
    at: impl Fn([i64; 2]) -> Option<usize>,
) -> Vec<f64> {
    for _ in 0..count {
        u = each([y, x], |[i, j]| {
            let (i, j) = (i as i64, j as i64);
            let near = |di: i64, dj: i64| at([i + di, j + dj]).map_or(0.0, |n| u[n]);
            let around = near(-1, 0) + near(1, 0) + near(0, -1) + near(0, 1);
            near(0, 0) + 0.1 * (around - 4.0 * near(0, 0))
        });
    }
    u
}

#[test]
fn heat() {
    let (y, x) = (9, 6);
    let u = Random(51).floats([y, x]);
    let inside = |[i, j]: [i64; 2]| {
        let in_it = (0..y as i64).contains(&i) && (0..x as i64).contains(&j);
        in_it.then_some((i * x as i64 + j) as usize)
    };
    let want = steps([y, x], each([y, x], |at| f64::from(u[at])), 4, inside);
    Case {
        graph: plate::graph,
        dims: || plate::Dims { y: 9, x: 6 },
        inputs: Box::new(move || plate::Inputs {
            u: u.clone(),
            c: ndarray::arr0(0.1),
        }),
        weights: Box::new(|| plate::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn heat_on_a_torus() {
    let (y, x) = (7, 5);
    let u = Random(52).floats([y, x]);
    let round = |[i, j]: [i64; 2]| {
        let (i, j) = (i.rem_euclid(y as i64), j.rem_euclid(x as i64));
        Some((i * x as i64 + j) as usize)
    };
    let want = steps([y, x], each([y, x], |at| f64::from(u[at])), 2, round);
    Case {
        graph: torus::graph,
        dims: || torus::Dims { y: 7, x: 5 },
        inputs: Box::new(move || torus::Inputs {
            u: u.clone(),
            c: ndarray::arr0(0.1),
        }),
        weights: Box::new(|| torus::Weights {}),
    }
    .gives(&[want]);
}
