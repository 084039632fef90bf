/// The last factor alone.
mod first {
    use eindecomp::ein;

    ein! {
        fn dot<dim N>(a: f32[N], b: f32[N]) -> bf16 {
            let y[]: bf16 = sum[j] a[j] * b[j] as bf16;
            y
        }
    }
}

/// The only factor.
mod second {
    use eindecomp::ein;

    ein! {
        fn total<dim N>(a: f32[N]) -> f16 {
            let y[] = sum[j] a[j] as f16;
            y
        }
    }
}

fn main() {}
