use eindecomp::ein;

ein! {
    fn late<dim N>(x: f32[N]) -> f32[N] {
        let y[n] = x[n] + z[n];
        let z[n] = 2.0 * y[n];
        z
    }
}

fn main() {}
