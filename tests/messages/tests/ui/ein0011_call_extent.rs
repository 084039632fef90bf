/// The width of another model.
mod first {
    use eindecomp::ein;

    ein! {
        fn rmsnorm<dim B>(x: f32[B, 512]) -> f32[B, 512] {
            let y[b, d] = x[b, d] * rsqrt(mean[e] sq(x[b, e]));
            y
        }
        fn model<dim B>(x: f32[B, 384]) -> f32[B, 512] {
            let y = rmsnorm(x);
            y
        }
    }
}

/// Arguments that disagree.
mod second {
    use eindecomp::ein;

    ein! {
        fn add<dim N>(a: f32[N], b: f32[N]) -> f32[N] {
            let y[n] = a[n] + b[n];
            y
        }
        fn model(a: f32[512], b: f32[384]) -> f32[512] {
            let y = add(a, b);
            y
        }
    }
}

fn main() {}
