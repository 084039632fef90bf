/// A convolution without padding.
mod first {
    use eindecomp::ein;

    ein! {
        fn conv<dim Y>(img: f32[Y], w: f32[3]) -> f32[Y] {
            let c[y in Y] = sum[u] img[y + u - 1] * w[u];
            c
        }
    }
}

/// An off-by-one size of a convolution.
mod second {
    use eindecomp::ein;

    ein! {
        fn conv<dim Y>(img: f32[Y], w: f32[3]) -> f32[Y - 1] {
            let c[y in Y - 1] = sum[u] img[y + u] * w[u];
            c
        }
    }
}

fn main() {}
