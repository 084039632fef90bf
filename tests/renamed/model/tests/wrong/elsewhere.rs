//! What other programs have, but do not lend.
use renamed_layers::blocks as layers;

ed::ein! {
    pub fn scalar<dim N>(x: f32[N]) -> f32[N] {
        let y[n] = layers::mish(x[n]);
        y
    }
}

ed::ein! {
    pub fn one_of_two<dim N>(x: f32[2 * N]) -> f32[N] {
        let y: f32[N] = layers::parts(x);
        y
    }
}

fn main() {}
