/// A negative size.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N - N - 1]) -> f32 {
            let y[] = 1.0;
            y
        }
    }
}

/// Divided by nothing.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N / 0]) -> f32 {
            let y[] = 1.0;
            y
        }
    }
}

fn main() {}
