/// Too large for its dtype.
mod first {
    use eindecomp::ein;

    ein! {
        fn f(a: u8) -> u8 {
            let y[] = a + 300;
            y
        }
    }
}

/// A suffix.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 2.0f32;
            y
        }
    }
}

fn main() {}
