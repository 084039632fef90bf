/// A parameter that is no state.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim C>(cache: f32[C], x: f32) -> f32 where C >= 1 {
            cache[0] = x;
            let y[] = x;
            y
        }
    }
}

/// A tensor of the block.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(b: f32[N]) -> f32[N] where N >= 1 {
            let y[n] = b[n];
            y[0] = 1.0;
            y
        }
    }
}

fn main() {}
