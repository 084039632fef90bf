/// The other index is meant.
mod first {
    use eindecomp::ein;

    ein! {
        fn rows<dim N>(a: f32[N, N]) -> f32[N] {
            let y[n] = sum[n] a[n, m];
            y
        }
    }
}

/// Summed and kept.
mod second {
    use eindecomp::ein;

    ein! {
        fn keep<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] / (sum[n] a[n]);
            y
        }
    }
}

fn main() {}
