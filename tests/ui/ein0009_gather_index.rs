use eindecomp::ein;

ein! {
    fn embed<dim S, dim V, dim D>(ids: f32[S], table: f32[V, D]) -> f32[S, D] {
        let x[s, d] = table[ids[s], d];
        x
    }
}

fn main() {}
