//! Blocks that `renamed-model` calls, under names that `ein!` must not depend on.
#![no_implicit_prelude]
#![allow(dead_code, non_camel_case_types)]

mod core {}
mod std {}
mod eindecomp {}
struct Option;
struct Result;
struct Vec;
struct Clone;
type usize = ();
type u32 = ();

/// Sizes, which blocks mention by their path.
pub mod sizes {
    /// Of a row.
    pub const WIDTH: ::core::primitive::usize = 6;
    /// How `WIDTH` is split.
    pub const HEADS: ::core::primitive::usize = 3;
}

/// Blocks and structs.
pub mod blocks {
    use crate::sizes;

    ::ed::ein! {
        /// A linear layer.
        pub struct Linear<dim I, dim O> {
            /// Rows are outputs.
            #[name = "{}.weight"] w: f32[O, I],
            b: f32[O],
        }

        /// `x·wᵀ + b`.
        pub fn linear<dim B, dim I, dim O>(x: f32[B, I], l: Linear<I, O>) -> f32[B, O] {
            let y[b, o] = (sum[i] x[b, i] * l.w[o, i]) + l.b[o];
            y
        }

        /// Divides every row by its largest element, after a shift.
        pub fn scaled<dim B, dim D>(x: f32[B, D], #[host] shift: f32) -> f32[B, D] where D >= 1 {
            let m[b] = max[d] x[b, d];
            let y[b, d] = x[b, d] / m[b] + shift;
            y
        }

        /// Rows of [`sizes::WIDTH`], each split into heads.
        pub fn heads<dim B>(x: f32[B, sizes::WIDTH])
            -> f32[B, sizes::HEADS, sizes::WIDTH / sizes::HEADS]
        {
            let y[b, h in sizes::HEADS, e] = x[b, (h, e)];
            y
        }

        /// The sums over the last axis, of any rank.
        pub fn sums<dim ..L, dim C>(x: f32[..L, C], y: f32[..L]) -> f32[..L] {
            let z[..l] = (sum[c] x[..l, c]) + y[..l];
            z
        }

        /// Of any rank and dtype.
        pub fn negated<dim ..L, T: Float>(x: T[..L]) -> T[..L] {
            let y[..l] = -x[..l];
            y
        }

        /// Writes columns into a cache.
        pub fn push<dim B, dim S, dim C>(x: f32[B, S], pos: i64, #[state] cache: f32[B, C]) -> f32[B, C] {
            cache[b, pos + s] = x[b, s];
            cache
        }

        /// The largest element of each row, by a function of this crate.
        #[kernel = crate::kernels::largest]
        pub extern fn largest<dim B, dim N>(x: f32[B, N]) -> f32[B] splits(B);

        /// Of this program only.
        fn hidden<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = x[n] + 1.0;
            y
        }

        /// As many steps as the results are said to have.
        pub fn ramp<dim N>(step: f32) -> (f32[2 * N], f32[N]) {
            let long[n in 2 * N] = step * (n as f32);
            let short[n in N] = long[2 * n];
            (long, short)
        }

        /// Two results.
        pub fn parts<dim N>(x: f32[2 * N]) -> (f32[N], f32[N]) {
            let even[n in N] = x[2 * n];
            let odd[n in N] = x[2 * n + 1];
            (even, odd)
        }
    }
}

/// What blocks call.
pub mod kernels {
    use ::std::prelude::rust_2024::*;

    /// The largest element of each row.
    ///
    /// # Errors
    /// Arguments of other dtypes than declared.
    pub fn largest(call: &mut ::ed::kernel::Call<'_>) -> ::ed::kernel::KernelResult {
        let x = call.input::<f32>(0)?;
        let largest = |row: &[f32]| row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let rows: Vec<f32> = x.elements.chunks(x.shape[1]).map(largest).collect();
        if let Some(out) = call.output::<f32>(0)? {
            out.elements.copy_from_slice(&rows);
        }
        Ok(())
    }
}

/// The same blocks by another way.
pub mod again {
    pub use crate::blocks::{Linear as Affine, linear as affine};
}
