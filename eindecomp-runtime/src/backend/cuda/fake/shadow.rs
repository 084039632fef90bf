//! Who used which bytes, and whether that is known to be done.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Per line, how many of its commands are known to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u32>);

impl Clock {
    /// Of a line.
    pub fn of(&self, line: usize) -> u32 {
        self.0.get(line).copied().unwrap_or(0)
    }

    /// One more of a line.
    pub fn tick(&mut self, line: usize) {
        if self.0.len() <= line {
            self.0.resize(line + 1, 0);
        }
        self.0[line] += 1;
    }

    /// What another one knows is known.
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(a, b)| *a = (*a).max(*b));
    }

    /// Is everything known that another one knows?
    pub fn knows(&self, other: &Clock) -> bool {
        (0..other.0.len()).all(|line| self.of(line) >= other.of(line))
    }

    fn is_after(&self, user: Use) -> bool {
        self.of(user.line) >= user.at
    }
}

/// A command: its line, and its number on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The line.
    pub line: usize,
    /// From 1.
    pub at: u32,
}

/// A buffer in a run.
type Tenant = (u32, u64);

/// Of some bytes: who wrote them, who read them since, whose they are, and whether that one wrote them.
#[derive(Clone, Debug, Default)]
struct Segment {
    end: u64,
    write: Option<Use>,
    reads: Vec<Use>,
    tenant: Option<(Tenant, bool)>,
}

/// What is known of a block of memory.
#[derive(Debug)]
pub struct Shadow {
    /// By start; without gaps.
    segments: BTreeMap<u64, Segment>,
    /// Who used the bytes of a tenant before it: anything of those that had them.
    before: HashMap<Tenant, Vec<Use>>,
    /// Who used a tenant, the last of each line.
    users: HashMap<Tenant, Vec<Use>>,
    /// Those of whose bytes another one has taken some.
    gone: HashSet<Tenant>,
}

impl Shadow {
    /// Of a block that nobody used.
    pub fn new(bytes: u64) -> Shadow {
        let whole = Segment {
            end: bytes,
            ..Segment::default()
        };
        Shadow {
            segments: [(0, whole)].into(),
            before: HashMap::new(),
            users: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// Nobody uses anything; what is written stays written.
    pub fn forget(&mut self) {
        for segment in self.segments.values_mut() {
            segment.write = None;
            segment.reads.clear();
        }
        self.before.clear();
        self.users.clear();
        self.gone.clear();
    }

    fn split(&mut self, at: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..at).next_back()
            && segment.end > at
        {
            let rest = segment.clone();
            segment.end = at;
            self.segments.insert(at, rest);
        }
    }

    fn within(&mut self, range: &Range<u64>) -> impl Iterator<Item = &mut Segment> {
        self.split(range.start);
        self.split(range.end);
        self.segments.range_mut(range.clone()).map(|(_, s)| s)
    }

    /// A command uses bytes.
    ///
    /// # Errors
    /// Another one, of which at least one writes, may use them at the same time.
    pub fn uses(
        &mut self,
        range: Range<u64>,
        write: bool,
        user: Use,
        clock: &Clock,
    ) -> Result<(), String> {
        if range.is_empty() {
            return Ok(());
        }
        for segment in self.within(&range) {
            let readers = segment.reads.iter().filter(|_| write);
            for other in segment.write.iter().chain(readers) {
                if !clock.is_after(*other) {
                    let what = if write { "writes" } else { "reads" };
                    return Err(format!(
                        "{what} bytes {range:?} while command {} of line {} may use them",
                        other.at, other.line
                    ));
                }
            }
            if write {
                segment.write = Some(user);
                segment.reads.clear();
            } else {
                segment.reads.retain(|r| r.line != user.line);
                segment.reads.push(user);
            }
        }
        Ok(())
    }

    /// A command is about to write into a buffer of these bytes; is the buffer new there?
    ///
    /// # Errors
    /// Those that had the bytes before may still use them.
    pub fn enter(
        &mut self,
        range: Range<u64>,
        tenant: Tenant,
        user: Use,
        clock: &Clock,
    ) -> Result<bool, String> {
        let new = !self.before.contains_key(&tenant);
        if new {
            let mut before = Vec::new();
            let mut old = Vec::new();
            for segment in self.within(&range) {
                before.extend(segment.write.iter().chain(&segment.reads));
                old.extend(segment.tenant.map(|t| t.0));
                segment.tenant = Some((tenant, false));
            }
            old.dedup();
            before.extend(old.iter().filter_map(|t| self.users.get(t)).flatten());
            self.gone.extend(old.into_iter().filter(|t| *t != tenant));
            before.retain(|b| *b != user);
            self.before.insert(tenant, before);
        }
        match self.before[&tenant].iter().find(|b| !clock.is_after(**b)) {
            None => Ok(new),
            Some(other) => Err(format!(
                "buffer {} takes bytes {range:?} while command {} of line {} may use them",
                tenant.0, other.at, other.line
            )),
        }
    }

    /// A command uses something of a tenant.
    ///
    /// # Errors
    /// Another one has taken some of its bytes, if not these: the two might have come in the other order.
    pub fn by(&mut self, tenant: Tenant, user: Use) -> Result<(), String> {
        if self.gone.contains(&tenant) {
            return Err(format!(
                "buffer {} is used after another one took some of its bytes",
                tenant.0
            ));
        }
        let users = self.users.entry(tenant).or_default();
        users.retain(|u| u.line != user.line);
        users.push(user);
        Ok(())
    }

    /// A tenant wrote bytes.
    pub fn wrote(&mut self, range: Range<u64>, tenant: Tenant) {
        for segment in self.within(&range) {
            segment.tenant = Some((tenant, true));
        }
    }

    /// A tenant's bytes are read.
    ///
    /// # Errors
    /// It did not write them.
    pub fn reads(&mut self, range: Range<u64>, tenant: Tenant) -> Result<(), String> {
        for segment in self.within(&range) {
            if segment.tenant != Some((tenant, true)) {
                return Err(format!(
                    "buffer {} is read at bytes {range:?}, which hold nothing of it",
                    tenant.0
                ));
            }
        }
        Ok(())
    }
}
