/// Arithmetic in a merged read.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim H, dim E>(x: f32[H * E]) -> f32[H, E] {
            let y[h in H, e in E] = x[(h + 0, e)];
            y
        }
    }
}

/// A multiple in a merged read.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim H, dim E>(x: f32[2 * H * E]) -> f32[H, E] {
            let y[h in H, e in E] = x[(2 * h, e)];
            y
        }
    }
}

fn main() {}
