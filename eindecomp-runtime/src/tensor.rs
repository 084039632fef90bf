//! Host tensors: dense, row-major, owned by the caller.

use eindecomp_core::ein::DType;
use half::{bf16, f16};

/// A Rust type that is an element type of tensors.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// Its [`DType`].
    const DTYPE: DType;
    /// Wraps elements.
    fn wrap(elements: Vec<Self>) -> Data;
    /// The elements, if `data` is of this type.
    fn unwrap(data: Data) -> Result<Vec<Self>, Data>;
    /// The elements, if `data` is of this type.
    fn slice(data: &Data) -> Option<&[Self]>;
}

macro_rules! elements {
    ($($variant:ident $ty:ty),*) => {
        /// The elements of a tensor, row-major.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Data { $(#[doc = concat!("`", stringify!($ty), "`")] $variant(Vec<$ty>)),* }

        $(impl Element for $ty {
            const DTYPE: DType = DType::$variant;
            fn wrap(elements: Vec<$ty>) -> Data { Data::$variant(elements) }
            fn unwrap(data: Data) -> Result<Vec<$ty>, Data> {
                match data { Data::$variant(v) => Ok(v), other => Err(other) }
            }
            fn slice(data: &Data) -> Option<&[$ty]> {
                match data { Data::$variant(v) => Some(v), _ => None }
            }
        })*

        impl Data {
            /// `len` zeros.
            pub fn zeros(dtype: DType, len: usize) -> Data {
                match dtype { $(DType::$variant => Data::$variant(vec![Default::default(); len])),* }
            }
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(Data::$variant(_) => DType::$variant),* }
            }
            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Data::$variant(v) => v.len()),* }
            }
            /// The elements as bytes, in this machine's order.
            pub fn bytes(&self) -> &[u8] {
                match self { $(Data::$variant(v) => bytemuck::cast_slice(v)),* }
            }
        }
    };
}
elements!(F64 f64, F32 f32, BF16 bf16, F16 f16, I64 i64, I32 i32, U32 u32, U8 u8, Bool bool);

impl Data {
    /// Has it no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements from bytes in this machine's order; a bool is true where its byte is not 0.
    /// `None` if the bytes are no whole number of elements.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Option<Data> {
        if !bytes.len().is_multiple_of(dtype.size()) {
            return None;
        }
        let mut data = Data::zeros(dtype, bytes.len() / dtype.size());
        match &mut data {
            Data::F64(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::F32(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::BF16(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::F16(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::I64(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::I32(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::U32(v) => bytemuck::cast_slice_mut(v).copy_from_slice(bytes),
            Data::U8(v) => v.copy_from_slice(bytes),
            Data::Bool(v) => v.iter_mut().zip(bytes).for_each(|(b, &x)| *b = x != 0),
        }
        Some(data)
    }
}

/// A dense row-major tensor in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor of `shape`; `None` if the number of elements is not the shape's.
    pub fn new(shape: Vec<usize>, data: Data) -> Option<Tensor> {
        let volume = shape.iter().try_fold(1usize, |p, &n| p.checked_mul(n))?;
        (volume == data.len()).then_some(Tensor { shape, data })
    }

    /// `shape` of zeros.
    pub fn zeros(dtype: DType, shape: Vec<usize>) -> Tensor {
        let data = Data::zeros(dtype, shape.iter().product());
        Tensor { shape, data }
    }

    /// Extents of its axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The elements, for writing in place.
    pub fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }

    /// Shape and elements.
    pub fn into_parts(self) -> (Vec<usize>, Data) {
        (self.shape, self.data)
    }
}
