/// A host value with axes.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N], #[host] h: f32[N]) -> f32[N] {
            let y[n] = a[n];
            y
        }
    }
}

/// An index that is not there.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            #[split(m = 2)]
            let y[n] = a[n];
            y
        }
    }
}

fn main() {}
