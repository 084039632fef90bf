/// A kernel.
mod first {
    use eindecomp::ein;

    ein! {
        extern fn g<dim N>(a: f32[N]) -> f32[N] splits(N);
    }
}

/// A kernel of two tensors.
mod second {
    use eindecomp::ein;

    ein! {
        extern fn g<dim N>(a: f32[N], b: f32[N]) -> f32[N] splits(N);
    }
}

fn main() {}
