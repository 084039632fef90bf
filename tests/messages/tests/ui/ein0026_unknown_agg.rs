/// By its other name.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32 {
            let y[] = average[n] a[n];
            y
        }
    }
}

/// By that of NumPy.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32 {
            let y[] = amax[n] a[n];
            y
        }
    }
}

fn main() {}
