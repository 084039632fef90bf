/// By way of another.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y = g(a);
            y
        }
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y = f(a);
            y
        }
    }
}

/// A scalar function.
mod second {
    use eindecomp::ein;

    ein! {
        fn d(x) = d(x) + d(x);
        fn f(a: f32) -> f32 {
            let y[] = d(a);
            y
        }
    }
}

/// Structs.
mod third {
    use eindecomp::ein;

    ein! {
        pub struct Node<dim D> { w: f32[D], edge: Edge<D> }
        pub struct Edge<dim D> { v: f32[D], to: Node<D> }
        fn f<dim D>(x: f32[D], #[weight] n: Node<D>) -> f32[D] {
            let y[d] = x[d] * n.w[d];
            y
        }
    }
}

fn main() {}
