//! Wrong calls of blocks of another crate: each is told once, with both places.
use renamed_layers::blocks as layers;
use renamed_layers::sizes;

const ROWS: usize = 5;

mod elsewhere {
    ed::ein! {
        pub(crate) fn halves<dim B, dim D>(x: f32[B, D]) -> f32[B, D / 2] where D % 2 == 0 {
            let y[b, d in D / 2] = x[b, 2 * d];
            y
        }

        pub struct Pair<dim I, dim O> { w: f32[O, I], b: f32[O] }
    }
}

ed::ein! {
    fn extent<dim B>(x: f32[B, 384], l: layers::Linear<512, 4>) -> f32[B, 4] {
        let y: f32[B, 4] = layers::linear(x, l);
        y
    }

    fn annotation<dim B, dim D>(x: f32[B, D]) -> f32[B, D] where D >= 1 {
        let y: f32[D, B] = layers::scaled(x, 1.0);
        let z[b, d] = y[d, b];
        z
    }

    fn arity<dim B, dim D>(x: f32[B, D]) -> f32[B, D] {
        let y: f32[B, D] = layers::scaled(x);
        y
    }

    fn dtype<dim B, dim D>(x: bf16[B, D]) -> f32[B, D] where D >= 1 {
        let y: f32[B, D] = layers::scaled(x, 1.0);
        y
    }

    fn unannotated<dim B, dim D>(x: f32[B, D]) -> f32[B, D] where D >= 1 {
        let y = layers::scaled(x, 1.0);
        y
    }

    fn clause<dim B, dim D>(x: f32[B, D]) -> f32[B, D / 2] {
        let y: f32[B, D / 2] = elsewhere::halves(x);
        y
    }

    fn field<dim B>(x: f32[B, 4], l: layers::Linear<4, 4>) -> f32[B, 4] {
        let y[b, o] = sum[i] x[b, i] * l.weights[o, i];
        y
    }

    fn fields<dim B, dim D>(x: f32[B, D], l: layers::Linear<4, 4>) -> f32[B, 4] {
        let y[b, o] = sum[i] x[b, i] * l.w[o, i];
        y
    }

    fn dims<dim B>(x: f32[B, 4], l: layers::Linear<4>) -> f32[B, 4] {
        let y: f32[B, 4] = layers::linear(x, l);
        y
    }
}

// A program of its own, since conditions on consts are looked at where the rest is right.
ed::ein! {
    fn consts<dim B>(x: f32[B, ROWS]) -> f32[B, sizes::HEADS, 2] {
        let y: f32[B, sizes::HEADS, 2] = layers::heads(x);
        y
    }

    fn another<dim B>(x: f32[B, 4], l: elsewhere::Pair<4, 4>) -> f32[B, 4] {
        let y: f32[B, 4] = layers::linear(x, l);
        y
    }
}

fn main() {}
