/// An average by hand.
mod first {
    use eindecomp::ein;

    ein! {
        fn ratio<dim N>(a: f32[N], b: f32[N]) -> f32 {
            let y[] = sum[j] a[j] / sum[j] b[j];
            y
        }
    }
}

/// The normaliser of a softmax.
mod second {
    use eindecomp::ein;

    ein! {
        fn softmax<dim B, dim C>(x: f32[B, C]) -> f32[B] {
            let p[b] = sum[j] x[b, j] / sum[k] x[b, k];
            p
        }
    }
}

fn main() {}
