//! Decoding one token after the other, with keys and values kept in a cache.

use eindecomp::{Cluster, MemoryMode, Session, ein};

use crate::language::{Random, each, near, softmax};

ein! {
    /// Attention of new positions over all that have been stored.
    pub fn decode<dim B, dim S, dim C, dim N, dim E>(
        q: f32[B, S, N, E],
        kn: f32[B, S, N, E],
        vn: f32[B, S, N, E],
        pos: i64,
        #[state] kc: f32[B, C, N, E],
        #[state] vc: f32[B, C, N, E],
    ) -> f32[B, S, N, E] {
        kc[b, pos + s, n, e] = kn[b, s, n, e];
        vc[b, pos + s, n, e] = vn[b, s, n, e];
        let l[b, n, s, t] = if t <= pos + s {
            (sum[e] q[b, s, n, e] * kc[b, t, n, e]) * rsqrt(E as f32)
        } else {
            -inf
        };
        let m[b, n, s] = max[t] l[b, n, s, t];
        let x[b, n, s, t] = exp(l[b, n, s, t] - m[b, n, s]);
        let z[b, n, s] = sum[t] x[b, n, s, t];
        let a[b, n, s, t] = x[b, n, s, t] / z[b, n, s];
        let o[b, s, n, e] = sum[t] a[b, n, s, t] * vc[b, t, n, e];
        o
    }
}

/// Six tokens, one per run of one program: each sees those before it.
#[test]
fn key_value_cache() {
    let (b, n, e, tokens) = (2, 3, 4, 6);
    let mut random = Random(71);
    let [q, k, v] = [0; 3].map(|_| random.floats([tokens, b, 1, n, e]));
    for devices in [1, 2, 3, 4, 8] {
        for memory in MemoryMode::ALL {
            let session = Session::builder()
                .cluster(Cluster::cpus(devices))
                .memory(memory)
                .workers(2)
                .no_cache()
                .build()
                .expect("a session");
            let dims = decode::Dims {
                b,
                s: 1,
                c: 8,
                n,
                e,
            };
            let program = session.compile(decode::graph(), dims);
            let program = program.and_then(|p| p.load(decode::Weights {}));
            let mut program = program.unwrap_or_else(|e| panic!("p={devices}: {e}"));
            for at in 0..tokens {
                let step =
                    |a: &eindecomp::Array<f32, 5>| a.index_axis(ndarray::Axis(0), at).to_owned();
                let inputs = decode::Inputs {
                    q: step(&q),
                    kn: step(&k),
                    vn: step(&v),
                    pos: ndarray::arr0(at as i64),
                };
                let got = program.run(inputs).expect("a run").o;
                let want = each([b, 1, n, e], |[b, s, n, c]| {
                    let score = |t: usize| -> f64 {
                        let dot =
                            (0..e).map(|e| f64::from(q[[at, b, s, n, e]] * k[[t, b, s, n, e]]));
                        dot.sum::<f64>() / (e as f64).sqrt()
                    };
                    let p = softmax(&(0..=at).map(score).collect::<Vec<_>>());
                    (0..=at).map(|t| p[t] * f64::from(v[[t, b, s, n, c]])).sum()
                });
                let got = got.iter().map(|&x| f64::from(x)).collect();
                near(
                    &format!("token {at}, p={devices}, {memory:?}"),
                    &[got],
                    &[want],
                );
            }
        }
    }
}
