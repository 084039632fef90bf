//! Loop nests: affine walks over labels, collapsed to few loops and cut into chunks of points.

use eindecomp_core::ein::LabelId;
use eindecomp_core::plan::layout::Region;

/// Points per chunk: a register of f32 is 1 KiB, so that a program's registers stay in L1.
pub(super) const LANES: usize = 256;

/// How boxes are cut along a label.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) label: LabelId,
    /// In about as many parts.
    pub(super) parts: usize,
    /// What the extents of all parts but the last are multiples of.
    pub(super) grain: usize,
}

impl Cut {
    /// In parts of any extents.
    pub(super) fn even(label: LabelId, parts: usize) -> Cut {
        let grain = 1;
        Cut {
            label,
            parts,
            grain,
        }
    }

    /// The parts of each piece, in order.
    pub(super) fn of(self, pieces: &[Region]) -> Vec<Region> {
        let Cut {
            label,
            parts,
            grain,
        } = self;
        let part = |piece: &Region, k: usize| {
            let (lo, hi) = piece.0[label.at()];
            let at = |k: usize| match k {
                _ if k == parts => hi,
                _ => lo + (hi - lo) * k / parts / grain * grain,
            };
            let mut part = piece.clone();
            part.0[label.at()] = (at(k), at(k + 1));
            part
        };
        let all = pieces
            .iter()
            .flat_map(|piece| (0..parts).map(move |k| (piece, k)));
        let cut = all.map(|(piece, k)| part(piece, k));
        let any = |part: &Region| part.0[label.at()].0 < part.0[label.at()].1;
        cut.filter(any).collect()
    }
}

/// `base + Σ coefficient · label`: the place of an element, or the value of an index.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) base: i64,
    /// One per label.
    pub(super) coefficients: Vec<i64>,
}

impl Walk {
    /// The value at the first point of a tile.
    pub(super) fn start(&self, tile: &Region) -> i64 {
        let terms = self.coefficients.iter().zip(&tile.0);
        self.base + terms.map(|(c, r)| c * r.0 as i64).sum::<i64>()
    }
}

/// Loops from slow to fast, each counting from 0, and the step of every walk along each.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    pub(super) extents: Vec<usize>,
    /// `steps[loop][walk]`.
    pub(super) steps: Vec<Vec<i64>>,
    /// `labels[loop]`: the labels that became this loop.
    labels: Vec<Vec<LabelId>>,
    walks: usize,
}

impl Loops {
    /// Over `order` (slow to fast) of a tile. Neighbours that every walk crosses with one step
    /// become one loop.
    pub(super) fn new(order: &[LabelId], tile: &Region, walks: &[Walk]) -> Loops {
        let mut loops = Loops {
            extents: Vec::new(),
            steps: Vec::new(),
            labels: Vec::new(),
            walks: walks.len(),
        };
        for l in order {
            let (lo, hi) = tile.0[l.at()];
            let (extent, steps) = (
                hi - lo,
                walks
                    .iter()
                    .map(|w| w.coefficients[l.at()])
                    .collect::<Vec<_>>(),
            );
            if extent == 1 {
                continue;
            }
            let merges = loops.steps.last().is_some_and(|outer| {
                outer
                    .iter()
                    .zip(&steps)
                    .all(|(o, s)| *o == s * extent as i64)
            });
            match (merges, loops.extents.last_mut(), loops.labels.last_mut()) {
                (true, Some(e), Some(of)) => {
                    *e *= extent;
                    of.push(*l);
                    loops.steps.pop();
                }
                _ => {
                    loops.extents.push(extent);
                    loops.labels.push(vec![*l]);
                }
            }
            loops.steps.push(steps);
        }
        loops
    }

    /// These loops around `inner`.
    pub(super) fn around(&self, inner: &Loops) -> Loops {
        let mut all = self.clone();
        all.extents.extend(&inner.extents);
        all.steps.extend(inner.steps.iter().cloned());
        all.labels.extend(inner.labels.iter().cloned());
        all
    }

    pub(super) fn points(&self) -> usize {
        self.extents.iter().product()
    }

    /// Step of a walk along the fastest loop.
    pub(super) fn inner(&self, walk: usize) -> i64 {
        self.steps.last().map_or(0, |s| s[walk])
    }

    /// Steps of all walks along the fastest loop.
    pub(super) fn inner_steps(&self) -> Vec<i64> {
        (0..self.walks).map(|w| self.inner(w)).collect()
    }

    /// Does the fastest loop run over the label?
    pub(super) fn runs_over(&self, label: LabelId) -> bool {
        self.labels.last().is_some_and(|l| l.contains(&label))
    }

    fn coordinates(&self, mut point: usize, out: &mut Vec<usize>) {
        out.clear();
        out.resize(self.extents.len(), 0);
        for (x, &e) in out.iter_mut().zip(&self.extents).rev() {
            *x = point % e;
            point /= e;
        }
    }
}

/// Consecutive points of a nest: runs along the fastest loop.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) points: usize,
    /// First lane and length of each run.
    pub(super) runs: Vec<(usize, usize)>,
    /// `offsets[run * walks + walk]`: distance of the run's first point from the nest's.
    offsets: Vec<i64>,
    walks: usize,
    at: Vec<usize>,
}

impl Chunk {
    /// Points `start..start + points` of `loops`.
    pub(super) fn fill(&mut self, loops: &Loops, start: usize, points: usize) {
        self.points = points;
        self.walks = loops.walks;
        self.runs.clear();
        self.offsets.clear();
        loops.coordinates(start, &mut self.at);
        let Some(fast) = self.at.len().checked_sub(1) else {
            self.runs.push((0, points));
            self.offsets.resize(self.walks, 0);
            return;
        };
        let mut lane = 0;
        while lane < points {
            let len = (loops.extents[fast] - self.at[fast]).min(points - lane);
            self.runs.push((lane, len));
            let from = self.offsets.len();
            self.offsets.resize(from + self.walks, 0);
            for (&x, steps) in self.at.iter().zip(&loops.steps) {
                if x > 0 {
                    for (o, s) in self.offsets[from..].iter_mut().zip(steps) {
                        *o += x as i64 * s;
                    }
                }
            }
            lane += len;
            self.at[fast] = 0;
            for axis in (0..fast).rev() {
                self.at[axis] += 1;
                if self.at[axis] < loops.extents[axis] {
                    break;
                }
                self.at[axis] = 0;
            }
        }
    }

    /// Where a walk is at the first point of a run, from its place at the nest's first point.
    pub(super) fn offset(&self, run: usize, walk: usize) -> i64 {
        self.offsets[run * self.walks + walk]
    }
}
