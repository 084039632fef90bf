/// A forgotten head axis.
mod first {
    use eindecomp::ein;

    ein! {
        fn heads<dim B, dim S, dim H, dim E>(q: f32[B, S, H, E]) -> f32[B, S, E] {
            let y[b, s, e] = sum[h in H] q[b, s, e];
            y
        }
    }
}

/// A forgotten axis that nothing runs over.
mod second {
    use eindecomp::ein;

    ein! {
        fn heads<dim B, dim S, dim H, dim E>(q: f32[B, S, H, E]) -> f32[B, S, E] {
            let y[b, s, e] = q[b, s, e];
            y
        }
    }
}

fn main() {}
