use eindecomp::ein;

ein! {
    fn spread<dim M>(a: f32[M]) -> f32[M, 4] {
        let c[m, n] = a[m];
        c
    }
}

fn main() {}
