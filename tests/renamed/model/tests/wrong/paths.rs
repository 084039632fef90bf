//! Paths that lead to no block.
use renamed_layers::blocks as layers;

fn plain(x: f32) -> f32 {
    x
}

ed::ein! {
    fn typo<dim B, dim D>(x: f32[B, D]) -> f32[B, D] {
        let y: f32[B, D] = layers::scald(x, 1.0);
        y
    }

    fn no_block<dim B>(x: f32[B]) -> f32[B] {
        let y: f32[B] = plain(x);
        y
    }

    fn no_struct<dim B>(x: f32[B], l: layers::Liner<4>) -> f32[B] {
        x
    }
}

fn main() {}
