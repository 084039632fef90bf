//! What was asked of facts before, so that nothing is searched for twice, and how much more is searched for
//! helps: as many steps on every machine.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::Known;
use super::examples::Examples;
use super::search::WORK;
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;

/// How much is done for all helps of a block together, as [`WORK`] for one proof.
const HELPS: usize = 5 * WORK;

/// What is taken as given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Given {
    Compares(Dim, CmpOp, Dim),
    AtLeastZero(Dim),
    Never,
}

/// Facts that were made, with their number.
type Made = (usize, Rc<Known>);

/// Of facts that come from the same ones, each with a number: those that are given the same in the same
/// order are the same.
#[derive(Debug)]
pub(super) struct Asked {
    numbers: Cell<usize>,
    given: RefCell<HashMap<(usize, Given), Made>>,
    answers: RefCell<HashMap<(usize, Dim), bool>>,
    normal: RefCell<HashMap<(usize, Dim), Dim>>,
    pub examples: RefCell<Examples>,
    /// How many look for helps.
    helping: Cell<usize>,
    /// What is left for those.
    left: Cell<usize>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            numbers: Cell::default(),
            given: RefCell::default(),
            answers: RefCell::default(),
            normal: RefCell::default(),
            examples: RefCell::default(),
            helping: Cell::default(),
            left: Cell::new(HELPS),
        }
    }
}

impl Asked {
    /// The number of facts that are new.
    pub fn number(&self) -> usize {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Is a goal false at an example that is known?
    pub fn is_false(&self, number: usize, goal: &Dim) -> bool {
        self.examples.borrow_mut().is_known(number, goal)
    }

    /// Notes that facts were made of others.
    pub fn made(&self, from: usize, to: usize, known: &Rc<Known>) {
        self.examples.borrow_mut().note(from, to, known);
    }

    pub fn given(&self, key: &(usize, Given)) -> Option<Made> {
        self.given.borrow().get(key).cloned()
    }

    pub fn note_given(&self, key: (usize, Given), made: Made) {
        self.given.borrow_mut().insert(key, made);
    }

    /// Does the goal follow, by what was found before or else by `search`, which is told how much it may do, and
    /// says how much it did?
    pub fn answer(
        &self,
        number: usize,
        goal: Dim,
        search: impl FnOnce(&Dim, usize) -> (bool, usize),
    ) -> bool {
        let key = (number, goal);
        if let Some(known) = self.answers.borrow().get(&key) {
            return *known;
        }
        let helping = self.helping.get() > 0;
        let most = if helping {
            WORK.min(self.left.get())
        } else {
            WORK
        };
        let (proved, done) = search(&key.1, most);
        if helping {
            self.left.set(self.left.get().saturating_sub(done));
        }
        // More may be done for what is no help.
        if proved || most == WORK {
            self.answers.borrow_mut().insert(key, proved);
        }
        proved
    }

    /// The canonical form, by what was found before or else as `made`; while that is being made, the dim is
    /// its own.
    pub fn normal(&self, number: usize, d: &Dim, made: impl FnOnce() -> Dim) -> Dim {
        let key = (number, d.clone());
        if let Some(known) = self.normal.borrow().get(&key) {
            return known.clone();
        }
        self.normal.borrow_mut().insert(key.clone(), d.clone());
        let made = made();
        self.normal.borrow_mut().insert(key, made.clone());
        made
    }
}

/// While this lives, what is asked is for helps.
#[derive(Debug)]
pub(in crate::syntax::check) struct Helping(Rc<Asked>);

impl Helping {
    pub(super) fn with(asked: &Rc<Asked>) -> Helping {
        asked.helping.set(asked.helping.get() + 1);
        Helping(asked.clone())
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        self.0.helping.set(self.0.helping.get() - 1);
    }
}
