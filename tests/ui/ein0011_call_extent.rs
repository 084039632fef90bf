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

fn main() {}
