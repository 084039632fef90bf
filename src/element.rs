//! The traits that dtype variables of blocks become.

use eindecomp_runtime::Element;
use half::{bf16, f16};

/// A float element type, `T: Float` in a block: `f64`, `f32`, [`bf16`] or [`f16`](struct@f16).
pub trait Float: Element + sealed::Sealed {}

/// An integer element type, `T: Int` in a block: `i64`, `i32`, `u32` or `u8`.
pub trait Int: Element + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! classes {
    ($($class:ident: $($ty:ty)*;)*) => {
        $($(
            impl $class for $ty {}
            impl sealed::Sealed for $ty {}
        )*)*
    };
}
classes! {
    Float: f64 f32 bf16 f16;
    Int: i64 i32 u32 u8;
}
