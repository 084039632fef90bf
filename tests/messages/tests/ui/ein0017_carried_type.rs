/// Grows at each step.
mod first {
    use eindecomp::ein;

    ein! {
        fn twice<dim N>(a: f32[N]) -> f32[2 * N] {
            let y[(n, k in 2)] = a[n];
            y
        }
        fn grow<dim N>(a: f32[N]) -> f32[N] {
            let mut x = a;
            for _i in 0..3 { x = twice(x); }
            x
        }
    }
}

/// Changes its dtype.
mod second {
    use eindecomp::ein;

    ein! {
        fn index<dim N>(a: f32[N]) -> i64[N] {
            let y[n] = floor(a[n]) as i64;
            y
        }
        fn model<dim N>(a: f32[N]) -> f32[N] {
            let mut x = a;
            for _i in 0..3 { x = index(x); }
            x
        }
    }
}

fn main() {}
