//! A convolution with stride 2 and a padded border, and the way back: images made larger.

use eindecomp::ein;

use crate::language::{Case, Random, each};

ein! {
    /// 3 × 3, stride 2, one row and column of zeros around the image.
    pub fn conv<dim N, dim C, dim O, dim Y, dim X>(
        x: f32[N, C, Y, X],
        #[weight] w: f32[O, C, 3, 3],
    ) -> f32[N, O, (Y - 1) / 2 + 1, (X - 1) / 2 + 1]
    where Y >= 1, X >= 1
    {
        let y[n, o, i in (Y - 1) / 2 + 1, j in (X - 1) / 2 + 1] =
            sum[c, u, v] (x[n, c, 2 * i + u - 1, 2 * j + v - 1] else 0.0) * w[o, c, u, v];
        y
    }

    /// Every pixel `S` times in each direction, then smoothed.
    pub fn larger<dim C, dim Y, dim X, dim S>(x: f32[C, Y, X], w: f32[S]) -> f32[C, Y * S, X * S] {
        let big[c, i in Y * S, j in X * S] = x[c, i / S, j / S] * w[i % S];
        let y[c, i, j] = big[c, i, j] + (big[c, i, j - 1] else 0.0);
        y
    }
}

#[test]
fn larger_by_repetition() {
    let (c, height, width, s) = (2, 3, 5, 4);
    let mut random = Random(22);
    let (x, w) = (random.floats([c, height, width]), random.floats([s]));
    let big = |c: usize, i: usize, j: usize| f64::from(x[[c, i / s, j / s]] * w[i % s]);
    let want = each([c, height * s, width * s], |[c, i, j]| {
        big(c, i, j) + if j == 0 { 0.0 } else { big(c, i, j - 1) }
    });
    let (x, w) = (x.clone(), w.clone());
    Case {
        graph: larger::graph,
        dims: || larger::Dims {
            c: 2,
            y: 3,
            x: 5,
            s: 4,
        },
        inputs: Box::new(move || larger::Inputs {
            x: x.clone(),
            w: w.clone(),
        }),
        weights: Box::new(|| larger::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn stride_2_padded() {
    for (height, width) in [(9, 6), (8, 7), (1, 2)] {
        check(height, width);
    }
}

fn check(height: usize, width: usize) {
    let (n, c, o) = (2, 3, 4);
    let mut random = Random(21);
    let x = random.floats([n, c, height, width]);
    let w = random.floats([o, c, 3, 3]);
    let (rows, columns) = ((height - 1) / 2 + 1, (width - 1) / 2 + 1);
    let want = each([n, o, rows, columns], |[n, o, i, j]| {
        let mut sum = 0.0;
        for c in 0..c {
            for (u, v) in (0..3).flat_map(|u| (0..3).map(move |v| (u, v))) {
                let (y, z) = ((2 * i + u).wrapping_sub(1), (2 * j + v).wrapping_sub(1));
                if y < height && z < width {
                    sum += f64::from(x[[n, c, y, z]] * w[[o, c, u, v]]);
                }
            }
        }
        sum
    });
    let dims: fn() -> conv::Dims = match (height, width) {
        (9, 6) => || conv::Dims {
            n: 2,
            c: 3,
            o: 4,
            y: 9,
            x: 6,
        },
        (8, 7) => || conv::Dims {
            n: 2,
            c: 3,
            o: 4,
            y: 8,
            x: 7,
        },
        _ => || conv::Dims {
            n: 2,
            c: 3,
            o: 4,
            y: 1,
            x: 2,
        },
    };
    Case {
        graph: conv::graph,
        dims,
        inputs: Box::new(move || conv::Inputs { x: x.clone() }),
        weights: Box::new(move || conv::Weights { w: w.clone() }),
    }
    .gives(&[want]);
}
