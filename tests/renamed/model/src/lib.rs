//! Calls of the blocks of `renamed-layers`.

use renamed_layers::again::affine;
use renamed_layers::blocks as layers;
use renamed_layers::{again, sizes};

/// A const that is as large as one of the other crate.
pub const WIDTH: usize = 6;

/// Blocks that another `ein!` of this crate calls.
pub mod inner {
    ed::ein! {
        /// Twice, without what is below 0.
        pub(crate) fn doubled<dim B, dim D>(x: f32[B, D]) -> f32[B, D] {
            let y[b, d] = 2.0 * relu(x[b, d]);
            let z: f32[B, D] = super::lowered(y);
            z
        }
    }
}

ed::ein! {
    /// A call of the `ein!` that calls this one's.
    pub fn lowered<dim B, dim D>(x: f32[B, D]) -> f32[B, D] {
        let y[b, d] = x[b, d] - 1.0;
        y
    }

    /// Layers of the other crate, by several ways.
    pub fn model<dim B, dim H>(
        x: f32[B, WIDTH],
        #[weight] first: again::Affine<WIDTH, H>,
        #[weight] rest: [layers::Linear<H, H>; 2],
    ) -> (f32[B, H], f32[B]) where H >= 1 {
        let mut h: f32[B, H] = affine(x, first);
        for l in rest { h = layers::linear(h, l); }
        let h: f32[B, H] = self::inner::doubled(h);
        let s: f32[B, H] = layers::scaled(h, 0.5);
        let g[b] = sum[d] x[b, d] * first.w[0, d];
        let t: f32[B] = layers::sums(s, g);
        (s, t)
    }

    /// Consts of two crates.
    pub fn split<dim B>(x: f32[B, WIDTH]) -> f32[B, sizes::HEADS, 2] {
        let y: f32[B, sizes::HEADS, 2] = layers::heads(x);
        y
    }

    /// A cache that a block of the other crate stores into, and a kernel of it.
    pub fn decode<dim B, dim C>(x: f32[B, 1], pos: i64, #[state] cache: f32[B, C]) -> (f32[B], f32[B, C]) {
        let kept: f32[B, C] = layers::push(x, pos, cache);
        let top: f32[B] = layers::largest(kept);
        (top, kept)
    }

    /// Sizes that only the type of a result gives, one of them behind a `_`.
    pub fn ramped<dim M>(x: f32[4 * M], step: f32) -> (f32[4 * M], f32[M]) {
        let (long, _): (f32[4 * M], f32[2 * M]) = layers::ramp(step);
        let (_, short): (f32[2 * M], f32[M]) = layers::ramp(step);
        let y[n] = x[n] + long[n];
        (y, short)
    }

    /// Two results, and solving `2·N`.
    pub fn paired<dim M>(x: f32[4 * M]) -> f32[2 * M] {
        let (a, b): (f32[2 * M], f32[2 * M]) = layers::parts(x);
        let c: f32[2 * M] = layers::negated(b);
        let y[n] = a[n] + c[n];
        y
    }
}
