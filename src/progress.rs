//! What is shown while something lasts: a line, on terminals, where the build has what draws it.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use eindecomp_core::ein::DType;
use eindecomp_core::plan::Region;
use eindecomp_runtime::{Contents, TensorSource};

use crate::profile::si;

/// What takes no longer is not worth a line.
const QUIET: Duration = Duration::from_millis(500);

/// A line that is there from [`QUIET`] until it is dropped.
pub(crate) struct Line {
    start: Instant,
    #[cfg(feature = "planner")]
    bar: std::cell::OnceCell<indicatif::ProgressBar>,
}

impl Line {
    pub fn start() -> Line {
        Line {
            start: Instant::now(),
            #[cfg(feature = "planner")]
            bar: Default::default(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Shows a message, where it lasts long enough.
    pub fn tell(&self, message: impl FnOnce() -> String) {
        if self.elapsed() > QUIET {
            self.draw(message);
        }
    }

    #[cfg(feature = "planner")]
    fn draw(&self, message: impl FnOnce() -> String) {
        let bar = self.bar.get_or_init(indicatif::ProgressBar::new_spinner);
        bar.set_message(message());
        bar.tick();
    }

    #[cfg(not(feature = "planner"))]
    fn draw(&self, _: impl FnOnce() -> String) {}
}

#[cfg(feature = "planner")]
impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// How much of the weights is there.
pub(crate) struct Loading {
    line: Line,
    read: Cell<u64>,
    total: u64,
}

impl Loading {
    /// `total` in bytes.
    pub fn of(total: u64) -> Loading {
        Loading {
            line: Line::start(),
            read: Cell::new(0),
            total,
        }
    }

    fn more(&self, bytes: u64) {
        self.read.set(self.read.get() + bytes);
        self.line.tell(|| self.message());
    }

    /// `loading weights: 1.21 GB of 13.5 GB`
    fn message(&self) -> String {
        let [read, total] = [self.read.get(), self.total].map(|bytes| si(Some(bytes as f64)));
        format!("loading weights: {read}B of {total}B")
    }
}

/// A weight, of which each box that is read is counted.
pub(crate) struct Counted<'l, T> {
    pub weight: &'l T,
    pub loading: &'l Loading,
}

impl<T: TensorSource> TensorSource for Counted<'_, T> {
    fn dtype(&self) -> DType {
        self.weight.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.weight.shape()
    }

    fn contents(&self, region: &Region) -> io::Result<Contents<'_>> {
        let contents = self.weight.contents(region);
        let bytes = region.volume() * self.dtype().size();
        self.loading.more(bytes as u64);
        contents
    }
}

#[cfg(test)]
mod tests {
    use eindecomp_runtime::Tensor;

    use super::*;

    #[test]
    fn boxes_add_up() {
        let weight = Tensor::zeros(DType::F64, vec![3, 1000]);
        let loading = Loading::of(48_000);
        let counted = Counted {
            weight: &weight,
            loading: &loading,
        };
        for region in [vec![(0, 1), (0, 1000)], vec![(1, 3), (250, 750)]] {
            counted.contents(&Region(region)).unwrap();
        }
        assert_eq!(loading.message(), "loading weights: 16.0 kB of 48.0 kB");
    }
}
