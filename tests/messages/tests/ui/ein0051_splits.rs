/// A result without the axis.
mod first {
    use eindecomp::ein;

    ein! {
        extern fn largest<dim B, dim N>(x: f32[B, N]) -> (f32[B], i64[N]) splits(B);
    }
}

/// Arithmetic on a split dim.
mod second {
    use eindecomp::ein;

    ein! {
        extern fn halves<dim N>(x: f32[2 * N]) -> f32[N] splits(N);
    }
}

fn main() {}
