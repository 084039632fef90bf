//! What other programs have, but do not lend.
use renamed_layers::blocks as layers;

ed::ein! {
    pub fn scalar<dim N>(x: f32[N]) -> f32[N] { let y[n] = layers::mish(x[n]); y }
}
ed::ein! {
    pub fn total<dim N>(x: f32[N]) -> f32[] { let y[] = layers::total[n] x[n]; y }
}
ed::ein! {
    pub fn nowhere<dim N>(x: f32[N], l: Nowhere<N>) -> f32[N] { let y[n] = x[n]; y }
}
ed::ein! {
    pub fn private<dim N>(x: f32[N]) -> f32[N] { let y: f32[N] = layers::hidden(x); y }
}
ed::ein! {
    pub fn one_of_two<dim N>(x: f32[2 * N]) -> f32[N] { let y: f32[N] = layers::parts(x); y }
}
ed::ein! {
    pub fn dtype<dim B>(x: f64[B, 3], s: f32[B]) -> f32[B] { let y: f32[B] = layers::sums(x, s); y }
}
fn main() {}
