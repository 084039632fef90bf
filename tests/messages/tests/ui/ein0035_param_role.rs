/// A tensor for a state.
mod first {
    use eindecomp::ein;

    ein! {
        fn push<dim C>(#[state] cache: f32[C], x: f32) -> f32 where C >= 1 {
            cache[0] = x;
            let y[] = x;
            y
        }
        fn f<dim C>(cache: f32[C], x: f32) -> f32 where C >= 1 {
            let y = push(cache, x);
            y
        }
    }
}

/// A state for a tensor.
mod second {
    use eindecomp::ein;

    ein! {
        fn total<dim C>(x: f32[C]) -> f32 {
            let y[] = sum[c] x[c];
            y
        }
        fn f<dim C>(#[state] cache: f32[C], x: f32) -> f32 where C >= 1 {
            cache[0] = x;
            let y = total(cache);
            y
        }
    }
}

fn main() {}
