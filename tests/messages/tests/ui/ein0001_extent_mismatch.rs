/// A product of sizes that differ.
mod first {
    use eindecomp::ein;

    ein! {
        fn product(a: f32[4, 512], b: f32[256, 3]) -> f32[4, 3] {
            let c[m, n] = sum[k] a[m, k] * b[k, n];
            c
        }
    }
}

/// A transposed weight of known sizes.
mod second {
    use eindecomp::ein;

    ein! {
        fn hidden<dim B>(x: f32[B, 768], w: f32[3072, 768]) -> f32[B, 3072] {
            let h[b, f] = sum[d] x[b, d] * w[d, f];
            h
        }
    }
}

fn main() {}
