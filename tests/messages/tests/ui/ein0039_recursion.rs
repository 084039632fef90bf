/// By way of another.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y = g(a);
            y
        }
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y = f(a);
            y
        }
    }
}

/// A scalar function.
mod second {
    use eindecomp::ein;

    ein! {
        fn d(x) = d(x) + d(x);
        fn f(a: f32) -> f32 {
            let y[] = d(a);
            y
        }
    }
}

fn main() {}
