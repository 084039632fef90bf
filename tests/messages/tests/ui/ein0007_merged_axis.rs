/// Heads that may not divide.
mod first {
    use eindecomp::ein;

    ein! {
        fn heads<dim S, dim D, dim H>(x: f32[S, D]) -> f32[S, H, D / H] {
            let q[s, h in H, e] = x[s, (h, e)];
            q
        }
    }
}

/// Indivisible heads.
mod second {
    use eindecomp::ein;

    ein! {
        fn heads<dim S>(x: f32[S, 100]) -> f32[S, 12, 8] {
            let q[s, h in 12, e] = x[s, (h, e)];
            q
        }
    }
}

fn main() {}
