/// Two different dims.
mod first {
    use eindecomp::ein;

    ein! {
        fn product<dim M, dim K, dim D, dim N>(a: f32[M, K], b: f32[D, N]) -> f32[M, N] {
            let c[m, n] = sum[k] a[m, k] * b[k, n];
            c
        }
    }
}

/// A transposed weight.
mod second {
    use eindecomp::ein;

    ein! {
        fn hidden<dim B, dim D, dim F>(x: f32[B, D], w: f32[F, D]) -> f32[B, F] {
            let h[b, f] = sum[d] x[b, d] * w[d, f];
            h
        }
    }
}

fn main() {}
