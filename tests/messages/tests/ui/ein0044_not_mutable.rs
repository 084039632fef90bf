/// A definition without mut.
mod first {
    use eindecomp::ein;

    ein! {
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 0.5;
            y
        }
        fn f<dim M>(a: f32[M]) -> f32[M] {
            let x = a;
            for _i in 0..3 { x = g(x); }
            x
        }
    }
}

/// A parameter.
mod second {
    use eindecomp::ein;

    ein! {
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 0.5;
            y
        }
        fn f<dim M>(x: f32[M]) -> f32[M] {
            for _i in 0..3 { x = g(x); }
            x
        }
    }
}

fn main() {}
