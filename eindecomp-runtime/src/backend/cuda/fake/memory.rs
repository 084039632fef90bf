//! Blocks of memory, with their shadows.

use std::ops::Range;

use eindecomp_core::ein::DType;
use eindecomp_core::plan::layout::Region;

use super::shadow::{Clock, Shadow, Use};
use crate::backend::cuda::driver::{GpuError, Place, Touch};

/// A block.
pub struct Memory {
    pub place: Place,
    size: u64,
    words: Vec<u128>,
    shadow: Shadow,
}

impl Memory {
    /// A block of bytes that are nothing: NaN, if they are floats.
    pub fn new(place: Place, size: u64) -> Memory {
        Memory {
            place,
            size,
            words: vec![u128::MAX; size.div_ceil(16) as usize],
            shadow: Shadow::new(size),
        }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// As [`Shadow::forget`].
    pub fn forget(&mut self) {
        self.shadow.forget();
    }

    /// Bytes from an offset on.
    pub fn after(&mut self, offset: u64) -> Result<&mut [u8], GpuError> {
        let left = self.size.saturating_sub(offset);
        self.range(offset, left)
    }

    /// So many bytes.
    pub fn range(&mut self, offset: u64, bytes: u64) -> Result<&mut [u8], GpuError> {
        let size = self.size;
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        let end = offset.saturating_add(bytes);
        if end > size {
            return Err(GpuError::Rule(format!(
                "bytes {offset}..{end} of a block of {size}"
            )));
        }
        Ok(&mut all[offset as usize..end as usize])
    }

    /// Where an offset is, which has so many bytes behind it.
    pub fn pointer(&mut self, offset: u64, bytes: u64) -> Result<*mut u8, GpuError> {
        Ok(self.range(offset, bytes)?.as_mut_ptr())
    }

    /// Bytes that are no buffer's are used.
    pub fn bytes_used(
        &mut self,
        offset: u64,
        bytes: u64,
        write: bool,
        user: Use,
        clock: &Clock,
    ) -> Result<(), String> {
        self.shadow.uses(offset..offset + bytes, write, user, clock)
    }

    /// A command uses a box of a buffer.
    pub fn touch(
        &mut self,
        touch: &Touch,
        epoch: u64,
        user: Use,
        clock: &Clock,
    ) -> Result<(), String> {
        let size = touch.dtype.size() as u64;
        let start = touch.at.offset;
        let whole = start..start + touch.region.volume() as u64 * size;
        if whole.end > self.size {
            return Err(format!("bytes {whole:?} of a block of {}", self.size));
        }
        let tenant = (touch.tenant, epoch);
        if touch.write && !touch.stays && !touch.part.is_empty() {
            let new = self.shadow.enter(whole.clone(), tenant, user, clock)?;
            if new {
                self.poison(&whole, touch.dtype);
            }
        }
        if !touch.stays && !touch.part.is_empty() {
            self.shadow.by(tenant, user)?;
        }
        for run in runs(&touch.region, &touch.part) {
            let run = start + run.0 * size..start + run.1 * size;
            self.shadow.uses(run.clone(), touch.write, user, clock)?;
            match (touch.stays, touch.write) {
                (true, _) => {}
                (false, true) => self.shadow.wrote(run, tenant),
                (false, false) => self.shadow.reads(run, tenant)?,
            }
        }
        Ok(())
    }

    /// What no computation makes by chance.
    fn poison(&mut self, range: &Range<u64>, dtype: DType) {
        let byte = if dtype == DType::Bool { 1 } else { 0xFF };
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        all[range.start as usize..range.end as usize].fill(byte);
    }
}

/// The elements of a box in a dense window, as ranges from and to.
fn runs(window: &Region, part: &Region) -> Vec<(u64, u64)> {
    if part.is_empty() {
        return Vec::new();
    }
    let mut runs = vec![(0, 1)];
    // Elements of a window of the axes so far, and whether the box has all of them.
    let (mut inner, mut whole) = (1, true);
    for (&(lo, hi), &(from, to)) in window.0.iter().zip(&part.0).rev() {
        let by = |n: usize| (n - lo) as u64 * inner;
        runs = match whole {
            true => vec![(by(from), by(to))],
            false => {
                let shifted = |n| runs.iter().map(move |(a, b)| (a + by(n), b + by(n)));
                (from..to).flat_map(shifted).collect()
            }
        };
        inner *= (hi - lo) as u64;
        whole &= (from, to) == (lo, hi);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_the_runs_of_its_rows() {
        let window = Region(vec![(0, 2), (4, 7), (1, 5)]);
        let all = |part: Vec<(usize, usize)>| runs(&window, &Region(part));
        assert_eq!(all(vec![(0, 2), (4, 7), (1, 5)]), [(0, 24)]);
        assert_eq!(all(vec![(1, 2), (5, 7), (1, 5)]), [(16, 24)]);
        assert_eq!(all(vec![(0, 2), (5, 6), (2, 4)]), [(5, 7), (17, 19)]);
        assert_eq!(runs(&Region(Vec::new()), &Region(Vec::new())), [(0, 1)]);
    }
}
