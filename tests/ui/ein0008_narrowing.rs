use eindecomp::ein;

ein! {
    fn norm<dim N>(x: f32[N]) -> f16[] {
        let z[] = sum[n; f16] sq(x[n]);
        z
    }
}

fn main() {}
