//! Strided windows on the elements of one buffer, in tensor coordinates.
#![expect(
    unsafe_code,
    reason = "several workers use disjoint boxes of one buffer, which slices cannot say"
)]

use eindecomp_core::ein::DType;
use eindecomp_core::plan::layout::Region;

/// Where the elements of a box lie, seen from the address of its first element.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    dtype: DType,
    region: Region,
    strides: Vec<isize>,
}

impl Window {
    /// A box inside, and the distance of its first element, in bytes.
    ///
    /// # Panics
    /// If the box is not inside.
    fn within(&self, region: &Region) -> (isize, Window) {
        assert!(
            self.region.contains(region),
            "{region} is not inside {}",
            self.region
        );
        let window = Window {
            region: region.clone(),
            ..self.clone()
        };
        if region.is_empty() {
            return (0, window);
        }
        let corner = region.0.iter().zip(&self.region.0).zip(&self.strides);
        let elements: isize = corner.map(|((r, o), s)| (r.0 - o.0) as isize * s).sum();
        (elements * self.dtype.size() as isize, window)
    }
}

/// Where the elements of a window are that a contraction reads in packed panels: its right operand's
/// columns, slow to fast, by blocks of depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// All columns of the buffer.
    pub(crate) lanes: usize,
    /// The first column that is read.
    pub(crate) first: usize,
}

/// A window to read through.
#[derive(Clone, Debug)]
pub struct View {
    ptr: *const u8,
    window: Window,
    /// Instead of by strides.
    packed: Option<Packed>,
}

/// A window to write through.
#[derive(Debug)]
pub struct ViewMut {
    ptr: *mut u8,
    window: Window,
}

// SAFETY: the constructors' contract is about memory, not about the thread that uses it.
unsafe impl Send for View {}
// SAFETY: a `View` only reads.
unsafe impl Sync for View {}
// SAFETY: the constructors' contract is about memory, not about the thread that uses it.
unsafe impl Send for ViewMut {}
// SAFETY: a shared `ViewMut` gives out its pointer and nothing else; kernels that write through
// one from several threads write disjoint boxes (`ViewMut::new`).
unsafe impl Sync for ViewMut {}

impl View {
    /// A window on `region` (in the tensor's coordinates) whose first element is at `ptr`;
    /// `strides` are distances between neighbours along each axis, in elements.
    ///
    /// # Safety
    /// As long as the window is used, its every element is initialised memory of one allocation,
    /// aligned for `dtype`, that nobody writes meanwhile; an element of a bool is 0 or 1.
    pub unsafe fn new(ptr: *const u8, dtype: DType, region: Region, strides: Vec<isize>) -> View {
        debug_assert_eq!(region.0.len(), strides.len());
        View {
            ptr,
            window: Window {
                dtype,
                region,
                strides,
            },
            packed: None,
        }
    }

    /// A window on a box inside.
    ///
    /// # Panics
    /// If the box is not inside.
    pub(crate) fn within(&self, region: &Region) -> View {
        let (offset, window) = self.window.within(region);
        // SAFETY: the elements of the box are elements of this window.
        let ptr = unsafe { self.ptr.offset(offset) };
        View {
            ptr,
            window,
            packed: None,
        }
    }

    /// The same memory, whose elements were packed: for the contraction that they were packed for.
    pub(crate) fn in_panels(self, packed: Packed) -> View {
        View {
            packed: Some(packed),
            ..self
        }
    }

    /// Where its elements are in panels, if they are.
    pub(crate) fn packed(&self) -> Option<Packed> {
        self.packed
    }

    /// Address of the first element.
    pub fn ptr(&self) -> *const u8 {
        self.ptr
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.window.dtype
    }

    /// The box.
    pub fn region(&self) -> &Region {
        &self.window.region
    }

    /// Distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.window.strides
    }
}

impl ViewMut {
    /// As [`View::new`].
    ///
    /// # Safety
    /// As long as the window is used, its every element is memory of one allocation, aligned for
    /// `dtype`; no two elements overlap; and nobody else reads or writes the box that a kernel, a
    /// fold or a copy was asked to write while it does.
    pub unsafe fn new(ptr: *mut u8, dtype: DType, region: Region, strides: Vec<isize>) -> ViewMut {
        debug_assert_eq!(region.0.len(), strides.len());
        ViewMut {
            ptr,
            window: Window {
                dtype,
                region,
                strides,
            },
        }
    }

    /// A window on a box inside.
    ///
    /// # Panics
    /// If the box is not inside.
    pub(crate) fn within(&self, region: &Region) -> ViewMut {
        let (offset, window) = self.window.within(region);
        // SAFETY: the elements of the box are elements of this window.
        let ptr = unsafe { self.ptr.offset(offset) };
        ViewMut { ptr, window }
    }

    /// The same elements, for reading, once they are written.
    pub(crate) fn for_reading(&self) -> View {
        View {
            ptr: self.ptr,
            window: self.window.clone(),
            packed: None,
        }
    }

    /// Address of the first element.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.window.dtype
    }

    /// The box.
    pub fn region(&self) -> &Region {
        &self.window.region
    }

    /// Distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.window.strides
    }
}
