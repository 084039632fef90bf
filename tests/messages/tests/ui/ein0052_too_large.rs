/// Rounds in rounds.
mod first {
    use eindecomp::ein;

    ein! {
        fn step<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = 2.0 * x[n];
            y
        }
        fn f<dim N>(x: f32[N]) -> f32[N] {
            let mut x = x;
            for _i in 0..2000 {
                for _j in 0..2000 { x = step(x); }
            }
            x
        }
    }
}

/// Calls of calls.
mod second {
    use eindecomp::ein;

    ein! {
        fn step<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = 2.0 * x[n];
            y
        }
        fn many<dim N>(x: f32[N]) -> f32[N] {
            let mut x = x;
            for _i in 0..4000 { x = step(x); }
            x
        }
        fn f<dim N>(x: f32[N]) -> f32[N] {
            let mut x = x;
            for _i in 0..100 { x = many(x); }
            for _i in 0..100 { x = many(x); }
            x
        }
    }
}

fn main() {}
