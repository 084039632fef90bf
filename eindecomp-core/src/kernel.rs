//! Opaque kernels: Rust functions behind `extern fn`, and how they are found by name.
//!
//! A graph knows a kernel by its name and plans it by its join-agg spec alone; the function goes
//! with the graph ([`Kernels`]) and is called once per tile and result.

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use half::{bf16, f16};

use crate::ein::DType;

/// What a kernel returns: an error is the run's, with the statement's name.
pub type KernelResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A kernel: reads tiles of its arguments and writes the tile of one result.
///
/// It is called once per tile and result; [`Call::output`] gives `None` for the results that are
/// not wanted in a call. A result's elements must follow from the arguments' alone, or else what
/// several devices compute does not fit together.
pub type KernelFn = fn(&mut Call<'_>) -> KernelResult;

macro_rules! elements {
    ($($variant:ident $ty:ty),*) => {
        /// Elements of a tile, row-major.
        #[derive(Clone, Copy, Debug)]
        pub enum Slice<'a> { $(#[doc = concat!("`", stringify!($ty), "`")] $variant(&'a [$ty])),* }

        /// Elements of a tile to be written, row-major.
        #[derive(Debug)]
        pub enum SliceMut<'a> { $(#[doc = concat!("`", stringify!($ty), "`")] $variant(&'a mut [$ty])),* }

        impl Slice<'_> {
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(Slice::$variant(_) => DType::$variant),* }
            }
        }

        impl SliceMut<'_> {
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(SliceMut::$variant(_) => DType::$variant),* }
            }
        }

        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const DTYPE: DType = DType::$variant;
                fn of<'a>(slice: Slice<'a>) -> Option<&'a [$ty]> {
                    match slice { Slice::$variant(s) => Some(s), _ => None }
                }
                fn of_mut<'a>(slice: &'a mut SliceMut<'_>) -> Option<&'a mut [$ty]> {
                    match slice { SliceMut::$variant(s) => Some(s), _ => None }
                }
            }
        )*
    };
}
elements!(F64 f64, F32 f32, BF16 bf16, F16 f16, I64 i64, I32 i32, U32 u32, U8 u8, Bool bool);

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element type of tensors.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// Its [`DType`].
    const DTYPE: DType;
    /// The elements, if they are of this type.
    fn of<'a>(slice: Slice<'a>) -> Option<&'a [Self]>;
    /// The elements, if they are of this type.
    fn of_mut<'a>(slice: &'a mut SliceMut<'_>) -> Option<&'a mut [Self]>;
}

/// The tile of an argument.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// Extents of the tile's axes: whole axes but for those of `splits` dims.
    pub shape: Vec<usize>,
    /// Its elements.
    pub elements: Slice<'a>,
}

/// The tile of an argument, of known element type.
#[derive(Clone, Debug)]
pub struct Tile<'a, T> {
    /// Extents of the tile's axes: whole axes but for those of `splits` dims.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub elements: &'a [T],
}

/// The tile of a result, of known element type. Its elements are 0 before the kernel writes them.
#[derive(Debug)]
pub struct TileMut<'a, T> {
    /// Extents of the tile's axes: whole axes but for those of `splits` dims.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub elements: &'a mut [T],
}

/// One call of a kernel.
#[derive(Debug)]
pub struct Call<'a> {
    inputs: Vec<Input<'a>>,
    result: usize,
    shape: Vec<usize>,
    elements: SliceMut<'a>,
}

impl<'a> Call<'a> {
    /// A call that wants result number `result`, whose tile has this shape.
    pub fn new(
        inputs: Vec<Input<'a>>,
        result: usize,
        shape: Vec<usize>,
        elements: SliceMut<'a>,
    ) -> Call<'a> {
        Call {
            inputs,
            result,
            shape,
            elements,
        }
    }

    /// The tiles of all arguments, in the order of the parameters.
    pub fn inputs(&self) -> &[Input<'a>] {
        &self.inputs
    }

    /// The number of the wanted result, from 0.
    pub fn result(&self) -> usize {
        self.result
    }

    /// The tile of argument number `n`, from 0.
    ///
    /// # Errors
    /// There is no such argument, or it is of another element type.
    pub fn input<T: Element>(&self, n: usize) -> Result<Tile<'a, T>, Box<dyn Error + Send + Sync>> {
        let count = self.inputs.len();
        let input = self
            .inputs
            .get(n)
            .ok_or_else(|| format!("there is no argument {n}, only {count}"))?;
        let elements = T::of(input.elements);
        let given = input.elements.dtype();
        Ok(Tile {
            shape: input.shape.clone(),
            elements: elements
                .ok_or_else(|| format!("argument {n} is {given}, not {}", T::DTYPE))?,
        })
    }

    /// The tile of result number `n`, from 0; `None` if that one is not wanted.
    ///
    /// # Errors
    /// It is of another element type.
    pub fn output<T: Element>(
        &mut self,
        n: usize,
    ) -> Result<Option<TileMut<'_, T>>, Box<dyn Error + Send + Sync>> {
        if n != self.result {
            return Ok(None);
        }
        let given = self.elements.dtype();
        let shape = self.shape.clone();
        let elements = T::of_mut(&mut self.elements);
        Ok(Some(TileMut {
            shape,
            elements: elements.ok_or_else(|| format!("result {n} is {given}, not {}", T::DTYPE))?,
        }))
    }

    /// Calls a kernel; an unwind is an error.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run(mut self, kernel: KernelFn) -> Result<(), String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| kernel(&mut self)));
        match outcome {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(match text {
                    Some(text) => format!("it panicked: {text}"),
                    None => "it panicked".to_owned(),
                })
            }
        }
    }
}

/// Kernels by name.
#[derive(Clone, Debug, Default)]
pub struct Kernels {
    by_name: BTreeMap<Arc<str>, KernelFn>,
}

impl Kernels {
    /// The kernel called `name`.
    pub fn get(&self, name: &str) -> Option<KernelFn> {
        self.by_name.get(name).copied()
    }

    /// Sets a kernel, instead of one that has the name.
    pub fn set(&mut self, name: impl Into<Arc<str>>, kernel: KernelFn) {
        self.by_name.insert(name.into(), kernel);
    }

    /// Adds a kernel; `false` if another one has the name, which then stays.
    #[must_use]
    pub fn add(&mut self, name: impl Into<Arc<str>>, kernel: KernelFn) -> bool {
        let known = *self.by_name.entry(name.into()).or_insert(kernel);
        std::ptr::fn_addr_eq(known, kernel)
    }
}

/// Of the same names: what a graph is does not depend on where functions are in memory.
impl PartialEq for Kernels {
    fn eq(&self, other: &Kernels) -> bool {
        self.by_name.keys().eq(other.by_name.keys())
    }
}
impl Eq for Kernels {}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(call: &mut Call<'_>) -> KernelResult {
        let x = call.input::<f32>(0)?;
        if let Some(y) = call.output::<f32>(1)? {
            for (y, x) in y.elements.iter_mut().zip(x.elements) {
                *y = 2.0 * x;
            }
        }
        Ok(())
    }

    fn panics(_: &mut Call<'_>) -> KernelResult {
        panic!("no {}", 7)
    }

    fn called(kernel: KernelFn, result: usize, x: Slice<'_>) -> Result<Vec<f32>, String> {
        let mut y = [0.0f32; 2];
        let input = Input {
            shape: vec![2],
            elements: x,
        };
        let out = SliceMut::F32(&mut y);
        Call::new(vec![input], result, vec![2], out).run(kernel)?;
        Ok(y.to_vec())
    }

    #[test]
    fn the_wanted_result_is_written_and_faults_are_errors() {
        let x = Slice::F32(&[1.0, 2.0]);
        assert_eq!(called(double, 1, x), Ok(vec![2.0, 4.0]));
        assert_eq!(called(double, 0, x), Ok(vec![0.0, 0.0]));
        let wrong = called(double, 1, Slice::I64(&[1, 2]));
        assert_eq!(wrong, Err("argument 0 is i64, not f32".to_owned()));
        assert_eq!(called(panics, 0, x), Err("it panicked: no 7".to_owned()));
    }

    #[test]
    fn one_kernel_per_name() {
        let mut kernels = Kernels::default();
        assert!(kernels.add("a", double));
        assert!(kernels.add("a", double));
        assert!(!kernels.add("a", panics));
        assert!(kernels.get("a").is_some() && kernels.get("b").is_none());
    }
}
