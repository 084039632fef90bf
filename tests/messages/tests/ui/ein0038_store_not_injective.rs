/// Every second place.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim B, dim C, dim S>(#[state] cache: f32[B, C], x: f32[B, S]) -> f32[B, C] where C >= 2 * S {
            cache[b, 2 * s] = x[b, s];
            cache
        }
    }
}

/// A sum of indices.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim C, dim S, dim T>(#[state] cache: f32[C], x: f32[S, T]) -> f32[C] where C >= S + T {
            cache[s + t] = x[s, t];
            cache
        }
    }
}

fn main() {}
