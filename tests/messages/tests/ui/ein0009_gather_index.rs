/// Tokens as floats.
mod first {
    use eindecomp::ein;

    ein! {
        fn embed<dim S, dim V, dim D>(ids: f32[S], table: f32[V, D]) -> f32[S, D] {
            let x[s, d] = table[ids[s], d];
            x
        }
    }
}

/// A rounded float is still one.
mod second {
    use eindecomp::ein;

    ein! {
        fn lookup<dim S, dim V>(x: f32[S], table: f32[V]) -> f32[S] {
            let at[s] = round(x[s]);
            let y[s] = table[at[s]];
            y
        }
    }
}

fn main() {}
