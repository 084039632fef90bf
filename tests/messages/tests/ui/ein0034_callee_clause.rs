/// Divisibility.
mod first {
    use eindecomp::ein;

    ein! {
        fn heads<dim D, dim H>(x: f32[D], b: f32[H]) -> f32[D] where D % H == 0 {
            let y[(h, e in D / H)] = x[(h, e)] + b[h];
            y
        }
        fn model<dim X, dim Y>(x: f32[X], b: f32[Y]) -> f32[X] {
            let y = heads(x, b);
            y
        }
    }
}

/// An order.
mod second {
    use eindecomp::ein;

    ein! {
        fn tail<dim T, dim S>(x: f32[T], like: f32[S]) -> f32[S] where T >= S {
            let y[s] = x[T - S + s] * like[s];
            y
        }
        fn model<dim T, dim S>(x: f32[T], like: f32[S]) -> f32[S] where S >= 1 {
            let y = tail(x, like);
            y
        }
    }
}

fn main() {}
