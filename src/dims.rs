//! The struct of a block's dims.

use std::fmt;

use crate::Dims;

/// `Dims`, from fields and the names as declared. Written out rather than derived, which costs less
/// of each compilation.
#[doc(hidden)]
#[macro_export]
macro_rules! __ein_dims {
    ($($field:ident $name:literal)*) => {
        /// Values of the dims.
        pub struct Dims {
            $(#[doc = concat!("`", $name, "`")] pub $field: $crate::__private::core::primitive::usize,)*
        }
        impl $crate::Dims for Dims {
            fn values(
                &self,
            ) -> $crate::__private::std::vec::Vec<(
                &'static $crate::__private::core::primitive::str,
                $crate::__private::core::primitive::usize,
            )> {
                [$(($name, self.$field)),*].to_vec()
            }
        }
        impl $crate::__private::core::clone::Clone for Dims {
            fn clone(&self) -> Dims {
                *self
            }
        }
        impl $crate::__private::core::marker::Copy for Dims {}
        impl $crate::__private::core::fmt::Debug for Dims {
            fn fmt(
                &self,
                f: &mut $crate::__private::core::fmt::Formatter<'_>,
            ) -> $crate::__private::core::fmt::Result {
                $crate::__private::show(self, f)
            }
        }
    };
}

/// As a derived `Debug` does.
pub fn show(dims: &dyn Dims, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut out = f.debug_struct("Dims");
    for (name, value) in dims.values() {
        out.field(&name.to_lowercase(), &value);
    }
    out.finish()
}
