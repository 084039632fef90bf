/// A temperature.
mod first {
    use eindecomp::ein;

    ein! {
        fn lse<dim N>(x: f32[N], t: f32) -> f32 {
            let y[] = logsumexp[n] x[n] * t;
            y
        }
    }
}

/// A scaled maximum.
mod second {
    use eindecomp::ein;

    ein! {
        fn double<dim M, dim N>(x: f32[M, N]) -> f32[M] {
            let y[m] = max[n] x[m, n] * 2.0;
            y
        }
    }
}

fn main() {}
