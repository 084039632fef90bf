//! Hash-consed lists of holdings and the tables between them: repeated layers share all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use crate::ein::access::AccessMap;
use crate::ein::einsum::Part;
use crate::ein::{EinSum, LabelId};
use crate::plan::cost::placed::Holding;
use crate::plan::layout::Layout;

use super::axes::{Orders, joins, owners, replicas};
use crate::plan::partition::Room;

/// One holding per value of a variable; equal ones are kept once.
#[derive(Debug)]
pub(super) struct Holdings {
    id: usize,
    unique: Vec<Holding>,
    /// Per value, its position in `unique`.
    of: Vec<usize>,
}

impl Holdings {
    /// Per value, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Holding> {
        self.of.iter().map(|&u| &self.unique[u])
    }

    /// Are all values equal, one by one?
    pub fn same(&self, other: &Holdings) -> bool {
        self.of.len() == other.of.len() && self.iter().eq(other.iter())
    }
}

/// The values of a join or an owner variable.
#[derive(Debug)]
pub(super) struct Layouts {
    id: usize,
    pub all: Vec<Layout>,
}

/// The labels of each axis of an output.
type Axes = Vec<Vec<LabelId>>;
type Memo<K, V> = HashMap<K, Rc<V>>;
/// Results, owners, parts, partial results per join, bytes of a final element.
type Sent = (usize, usize, Vec<Part>, Vec<u32>, u64);

/// What has been made so far. Keys are shapes and access maps, never names.
pub(super) struct Lists {
    pub devices: u32,
    pub orders: Orders,
    made: usize,
    joins: HashMap<Room, Option<Rc<Layouts>>>,
    some: Memo<Vec<Layout>, Layouts>,
    own: Memo<(Axes, usize), Layouts>,
    owners: Memo<Vec<usize>, Layouts>,
    tiles: Memo<(usize, Vec<usize>), Holdings>,
    replicas: Memo<(usize, Vec<usize>), Holdings>,
    footprints: Memo<(AccessMap, usize, Vec<usize>, Vec<usize>), Holdings>,
    outputs: Memo<(Axes, usize, Vec<usize>), Holdings>,
    elements: Memo<(usize, usize), Vec<u64>>,
    bytes: Memo<(usize, usize, Vec<u64>, Rows), Vec<u64>>,
    sent: Memo<Sent, Vec<u64>>,
}

/// The value in the memo, made if it is not there.
fn memo<K: Eq + Hash, V>(map: &mut Memo<K, V>, key: K, make: impl FnOnce(&K) -> V) -> Rc<V> {
    if let Some(found) = map.get(&key) {
        return found.clone();
    }
    let made = Rc::new(make(&key));
    map.insert(key, made.clone());
    made
}

impl Lists {
    pub fn new(devices: u32, orders: Orders) -> Lists {
        Lists {
            devices,
            orders,
            made: 0,
            joins: HashMap::new(),
            some: HashMap::new(),
            own: HashMap::new(),
            owners: HashMap::new(),
            tiles: HashMap::new(),
            replicas: HashMap::new(),
            footprints: HashMap::new(),
            outputs: HashMap::new(),
            elements: HashMap::new(),
            bytes: HashMap::new(),
            sent: HashMap::new(),
        }
    }

    /// Layouts of a join; `None` if its pins fit no partition vector.
    pub fn joins(&mut self, room: Room) -> Option<Rc<Layouts>> {
        if let Some(found) = self.joins.get(&room) {
            return found.clone();
        }
        let all = joins(self.devices, &room, self.orders);
        let made = all.map(|all| self.layouts(all));
        self.joins.insert(room, made.clone());
        made
    }

    /// The tiles of joins as layouts of the output: those of each aggregated label's first part.
    pub fn own(&mut self, e: &EinSum, joins: &Layouts) -> Rc<Layouts> {
        self.made += 1;
        let id = self.made;
        memo(&mut self.own, (e.out.clone(), joins.id), |_| Layouts {
            id,
            all: joins.all.iter().map(|j| own_tiles(e, j)).collect(),
        })
    }

    /// Some of the layouts of a join.
    pub fn layouts(&mut self, all: Vec<Layout>) -> Rc<Layouts> {
        self.made += 1;
        let id = self.made;
        let make = |all: &Vec<Layout>| Layouts {
            id,
            all: all.clone(),
        };
        memo(&mut self.some, all, make)
    }

    /// Layouts of a tensor's owner.
    pub fn owners(&mut self, shape: &[usize]) -> Rc<Layouts> {
        self.made += 1;
        let (id, devices, orders) = (self.made, self.devices, self.orders);
        memo(&mut self.owners, shape.to_vec(), |shape| Layouts {
            id,
            all: owners(devices, shape, orders),
        })
    }

    /// The tiles of an owner.
    pub fn tiles(&mut self, owners: &Layouts, shape: &[usize]) -> Rc<Holdings> {
        self.made += 1;
        let (id, devices) = (self.made, self.devices);
        memo(&mut self.tiles, (owners.id, shape.to_vec()), |_| {
            holdings(
                id,
                owners.all.iter().map(|o| Holding::tiles(o, shape, devices)),
            )
        })
    }

    /// What replicas of a tensor may be.
    pub fn replicas(&mut self, owner: &Holdings, shape: &[usize]) -> Rc<Holdings> {
        self.made += 1;
        let (id, devices, orders) = (self.made, self.devices, self.orders);
        memo(&mut self.replicas, (owner.id, shape.to_vec()), |_| {
            let mut all = replicas(devices, shape, orders);
            // owners over another number of devices are replicas too: of themselves
            for own in &owner.unique {
                if !all.contains(own) {
                    all.push(own.clone());
                }
            }
            holdings(id, all.into_iter())
        })
    }

    /// What the tuples of each join read of an operand.
    pub fn footprints(
        &mut self,
        access: AccessMap,
        joins: &Layouts,
        extents: &[usize],
        shape: &[usize],
    ) -> Rc<Holdings> {
        self.made += 1;
        let (id, devices) = (self.made, self.devices);
        let key = (access, joins.id, extents.to_vec(), shape.to_vec());
        memo(&mut self.footprints, key, |key| {
            let read = |j| Holding::footprints(&key.0, j, extents, shape, devices);
            holdings(id, joins.all.iter().map(read))
        })
    }

    /// What the tuples of each join make.
    pub fn outputs(&mut self, e: &EinSum, joins: &Layouts, extents: &[usize]) -> Rc<Holdings> {
        self.made += 1;
        let (id, devices) = (self.made, self.devices);
        let key = (e.out.clone(), joins.id, extents.to_vec());
        memo(&mut self.outputs, key, |_| {
            let out = |j| Holding::outputs(e, j, extents, devices);
            holdings(id, joins.all.iter().map(out))
        })
    }

    /// Bytes that results send to their owners, row-major: those of records where there are
    /// `partials` to fold, else of `size` each.
    pub fn sent(
        &mut self,
        made: &Holdings,
        owners: &Holdings,
        parts: Vec<Part>,
        partials: Vec<u32>,
        size: u64,
    ) -> Rc<Vec<u64>> {
        let key = (made.id, owners.id, parts, partials, size);
        memo(&mut self.sent, key, |(_, _, parts, partials, size)| {
            let mut rows: HashMap<(usize, bool), Vec<u64>> = HashMap::new();
            let bytes = |m: &Holding, o: &Holding, folds: bool| match folds {
                true => {
                    let bytes = |p: &Part| m.sent(o, p).saturating_mul(p.dtype.size() as u128);
                    saturate(parts.iter().map(bytes).sum())
                }
                false => saturate(m.beyond(o)).saturating_mul(*size),
            };
            let mut table = Vec::with_capacity(made.of.len() * owners.of.len());
            for (&u, &n) in made.of.iter().zip(partials) {
                let row = rows.entry((u, n > 1)).or_insert_with(|| {
                    let made = &made.unique[u];
                    owners
                        .unique
                        .iter()
                        .map(|o| bytes(made, o, n > 1))
                        .collect()
                });
                table.extend(owners.of.iter().map(|&o| row[o]));
            }
            table
        })
    }

    /// Bytes that `need` lacks beyond `have`, row-major; `size` = bytes of an element per value
    /// of `need`.
    pub fn table(
        &mut self,
        need: &Holdings,
        have: &Holdings,
        size: &[u64],
        rows: Rows,
    ) -> Rc<Vec<u64>> {
        let elements = memo(&mut self.elements, (need.id, have.id), |_| {
            let beyond = |n: &Holding| have.unique.iter().map(|h| saturate(n.beyond(h))).collect();
            let unique: Vec<Vec<u64>> = need.unique.iter().map(beyond).collect();
            let rows = need.of.iter().map(|&u| &unique[u]);
            rows.flat_map(|row| have.of.iter().map(|&u| row[u]))
                .collect()
        });
        let (n, h) = (need.of.len(), have.of.len());
        let key = (need.id, have.id, size.to_vec(), rows);
        memo(&mut self.bytes, key, |_| {
            let entry = |x: usize, y: usize| elements[x * h + y].saturating_mul(size[x]);
            match rows {
                Rows::Need => (0..n)
                    .flat_map(|x| (0..h).map(move |y| entry(x, y)))
                    .collect(),
                Rows::Have => (0..h)
                    .flat_map(|y| (0..n).map(move |x| entry(x, y)))
                    .collect(),
            }
        })
    }
}

/// What a row of a table stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rows {
    /// A value of what is needed.
    Need,
    /// A value of what is there.
    Have,
}

fn holdings(id: usize, all: impl Iterator<Item = Holding>) -> Holdings {
    let (mut unique, mut seen) = (Vec::new(), HashMap::new());
    let of = all
        .map(|holding| {
            *seen.entry(holding).or_insert_with_key(|h: &Holding| {
                unique.push(h.clone());
                unique.len() - 1
            })
        })
        .collect();
    Holdings { id, unique, of }
}

fn own_tiles(e: &EinSum, join: &Layout) -> Layout {
    let parts = |axis: &Vec<LabelId>| axis.first().map_or(1, |l| join.parts[l.at()]);
    let parts: Vec<u32> = e.out.iter().map(parts).collect();
    let tiles = parts.iter().map(|&d| d as usize).product();
    // labels are in output order, then reduced
    let stride = join.tiles() / std::cmp::max(tiles, 1);
    Layout {
        devices: (0..tiles).map(|t| join.devices[t * stride]).collect(),
        parts,
    }
}

pub(super) fn saturate(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
