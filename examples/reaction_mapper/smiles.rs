//! A reader of SMILES: atoms with element and hydrogens, bonds, branches, ring closures and
//! separate molecules, from the tokens of one side of a reaction.
//!
//! It follows the OpenSMILES grammar, except that `~` (any bond) is read as a bond of order 0,
//! as the mapper's training data use it between the fragments of a salt, and that aromaticity
//! is taken as written: nothing is kekulised, and no valence is refused.

use std::collections::HashMap;

use super::bracket;
use super::element::Element;
use super::tokenizer::Token;

/// An atom of a molecule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// Its element.
    pub element: Element,
    /// Hydrogens that are not atoms of their own.
    pub hydrogens: u32,
    /// Which of the tokens read is this atom.
    pub token: usize,
}

/// One or more molecules: atoms in the order of writing, and who is bonded to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Molecules {
    atoms: Vec<Atom>,
    neighbours: Vec<Vec<usize>>,
}

/// Why a string is not a SMILES. Offsets are bytes of the string that was cut into tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SmilesError {
    /// A token that cannot stand outside brackets.
    #[error("`{token}` at byte {at} cannot stand here")]
    UnexpectedToken {
        /// Where.
        at: usize,
        /// What.
        token: String,
    },
    /// A bracket atom without an element.
    #[error("`{token}` at byte {at} names no element")]
    UnknownElement {
        /// Where.
        at: usize,
        /// The whole bracket.
        token: String,
    },
    /// Something in a bracket atom that is no isotope, chirality, hydrogens, charge or class.
    #[error("`{rest}` at byte {at} is out of place in a bracket atom")]
    MalformedBracket {
        /// Where.
        at: usize,
        /// What is left of the bracket from there.
        rest: String,
    },
    /// A bond, branch or ring number with no atom before it.
    #[error("`{token}` at byte {at} follows no atom")]
    NoAtomBefore {
        /// Where.
        at: usize,
        /// What.
        token: String,
    },
    /// A bond with no atom after it.
    #[error("the bond at byte {at} leads nowhere")]
    DanglingBond {
        /// Where.
        at: usize,
    },
    /// A `(` without `)`, or the reverse.
    #[error("the parenthesis at byte {at} has no partner")]
    UnbalancedBranch {
        /// Where.
        at: usize,
    },
    /// A branch or a molecule without an atom.
    #[error("there is no atom before byte {at}")]
    Empty {
        /// Where the atom is missing.
        at: usize,
    },
    /// A ring number that is used once.
    #[error("ring {ring}, opened at byte {at}, is never closed")]
    UnclosedRing {
        /// Where it was opened.
        at: usize,
        /// Its number.
        ring: u32,
    },
    /// A ring closure with a different bond at each end.
    #[error("ring {ring} closes at byte {at} with another bond than it was opened with")]
    RingBondConflict {
        /// Where it is closed.
        at: usize,
        /// Its number.
        ring: u32,
    },
    /// A ring closure onto its own atom, or onto an atom that is already bonded.
    #[error("ring {ring} closes at byte {at} between atoms that cannot be bonded once more")]
    DuplicateBond {
        /// Where it is closed.
        at: usize,
        /// Its number.
        ring: u32,
    },
}

impl Molecules {
    /// Reads tokens of SMILES; none at all are no molecules.
    ///
    /// # Errors
    /// What is malformed, and where.
    pub fn parse(tokens: &[Token]) -> Result<Self, SmilesError> {
        let mut reader = Reader::default();
        for (index, token) in tokens.iter().enumerate() {
            reader.read(index, *token)?;
        }
        match tokens.last() {
            Some(last) => reader.finish(last.at + last.text.len()),
            None => Ok(Self::default()),
        }
    }

    /// All atoms, in the order of writing.
    pub fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// The atoms bonded to an atom.
    pub fn neighbours(&self, atom: usize) -> &[usize] {
        &self.neighbours[atom]
    }
}

/// An atom and what its hydrogens are still to be counted from.
struct OpenAtom {
    element: Element,
    aromatic: bool,
    token: usize,
    /// Given in brackets; atoms without brackets fill their valence.
    hydrogens: Option<u32>,
    /// Sum of the orders of its bonds, an aromatic bond counting 1.
    order: u32,
}

impl OpenAtom {
    /// OpenSMILES 3.1.5 and 3.5: up to the next normal valence; an aromatic atom gives one
    /// electron to its ring and never takes a higher valence than the lowest.
    fn close(self) -> Atom {
        let valences = self.element.normal_valences();
        let used = self.order + u32::from(self.aromatic);
        let target = match self.aromatic {
            true => valences.first(),
            false => valences.iter().find(|&&valence| valence >= used),
        };
        let free = target.map_or(0, |valence| valence.saturating_sub(used));
        let hydrogens = self.hydrogens.unwrap_or(free);
        Atom {
            element: self.element,
            hydrogens,
            token: self.token,
        }
    }
}

struct OpenRing {
    atom: usize,
    order: Option<u32>,
    at: usize,
}

#[derive(Default)]
struct Reader {
    atoms: Vec<OpenAtom>,
    neighbours: Vec<Vec<usize>>,
    /// The atom the next one is bonded to.
    previous: Option<usize>,
    /// The order of a bond symbol just read, and its place.
    bond: Option<(u32, usize)>,
    /// Atoms to return to, and the place of each `(`.
    branches: Vec<(usize, usize)>,
    /// A `(` or `.` that no atom has followed yet.
    awaits_atom: bool,
    rings: HashMap<u32, OpenRing>,
}

impl Reader {
    fn read(&mut self, index: usize, token: Token) -> Result<(), SmilesError> {
        match token.text.as_bytes()[0] {
            b'[' => {
                let atom = bracket::read(token)?;
                self.add_atom(index, atom.element, atom.aromatic, Some(atom.hydrogens));
            }
            b'-' | b'/' | b'\\' | b':' => self.set_bond(1, token)?,
            b'=' => self.set_bond(2, token)?,
            b'#' => self.set_bond(3, token)?,
            b'$' => self.set_bond(4, token)?,
            b'~' => self.set_bond(0, token)?,
            b'(' => {
                self.no_bond_pending()?;
                self.branches.push((self.atom_before(token)?, token.at));
                self.awaits_atom = true;
            }
            b')' => {
                self.no_bond_pending()?;
                self.no_atom_missing(token.at)?;
                let branch = self.branches.pop();
                let (atom, _) = branch.ok_or(SmilesError::UnbalancedBranch { at: token.at })?;
                self.previous = Some(atom);
            }
            b'.' => {
                self.no_bond_pending()?;
                self.no_branch_open()?;
                self.atom_before(token)?;
                self.previous = None;
                self.awaits_atom = true;
            }
            b'%' | b'0'..=b'9' => self.ring(token)?,
            _ => match Element::prefix(token.text) {
                Some((element, aromatic, _)) => self.add_atom(index, element, aromatic, None),
                None => {
                    let (at, token) = (token.at, token.text.to_owned());
                    return Err(SmilesError::UnexpectedToken { at, token });
                }
            },
        }
        Ok(())
    }

    fn finish(self, end: usize) -> Result<Molecules, SmilesError> {
        self.no_bond_pending()?;
        self.no_branch_open()?;
        self.no_atom_missing(end)?;
        if let Some((&ring, open)) = self.rings.iter().min_by_key(|(_, open)| open.at) {
            return Err(SmilesError::UnclosedRing { at: open.at, ring });
        }
        let atoms = self.atoms.into_iter().map(OpenAtom::close).collect();
        Ok(Molecules {
            atoms,
            neighbours: self.neighbours,
        })
    }

    fn add_atom(&mut self, token: usize, element: Element, aromatic: bool, given: Option<u32>) {
        let this = self.atoms.len();
        self.atoms.push(OpenAtom {
            element,
            aromatic,
            token,
            hydrogens: given,
            order: 0,
        });
        self.neighbours.push(Vec::new());
        let order = self.bond.take().map_or(1, |(order, _)| order);
        if let Some(previous) = self.previous.replace(this) {
            self.connect(previous, this, order);
        }
        self.awaits_atom = false;
    }

    fn connect(&mut self, a: usize, b: usize, order: u32) {
        for (from, to) in [(a, b), (b, a)] {
            self.neighbours[from].push(to);
            self.atoms[from].order += order;
        }
    }

    fn set_bond(&mut self, order: u32, token: Token) -> Result<(), SmilesError> {
        self.no_bond_pending()?;
        if self.previous.is_none() {
            return Err(no_atom_before(token));
        }
        self.bond = Some((order, token.at));
        Ok(())
    }

    fn ring(&mut self, token: Token) -> Result<(), SmilesError> {
        let at = token.at;
        let atom = self.atom_before(token)?;
        let digits = token.text.trim_start_matches('%');
        let ring = digits
            .bytes()
            .fold(0, |number, digit| 10 * number + u32::from(digit - b'0'));
        let order = self.bond.take().map(|(order, _)| order);
        let Some(open) = self.rings.remove(&ring) else {
            self.rings.insert(ring, OpenRing { atom, order, at });
            return Ok(());
        };
        if open.atom == atom || self.neighbours[atom].contains(&open.atom) {
            return Err(SmilesError::DuplicateBond { at, ring });
        }
        match (open.order, order) {
            (Some(first), Some(second)) if first != second => {
                return Err(SmilesError::RingBondConflict { at, ring });
            }
            (first, second) => self.connect(open.atom, atom, first.or(second).unwrap_or(1)),
        }
        Ok(())
    }

    fn atom_before(&self, token: Token) -> Result<usize, SmilesError> {
        match self.previous {
            Some(atom) if !self.awaits_atom => Ok(atom),
            _ => Err(no_atom_before(token)),
        }
    }

    fn no_bond_pending(&self) -> Result<(), SmilesError> {
        match self.bond {
            Some((_, at)) => Err(SmilesError::DanglingBond { at }),
            None => Ok(()),
        }
    }

    fn no_branch_open(&self) -> Result<(), SmilesError> {
        match self.branches.last() {
            Some(&(_, at)) => Err(SmilesError::UnbalancedBranch { at }),
            None => Ok(()),
        }
    }

    fn no_atom_missing(&self, at: usize) -> Result<(), SmilesError> {
        if self.awaits_atom {
            Err(SmilesError::Empty { at })
        } else {
            Ok(())
        }
    }
}

fn no_atom_before(token: Token) -> SmilesError {
    SmilesError::NoAtomBefore {
        at: token.at,
        token: token.text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokenizer::split;
    use super::*;

    fn read(text: &str) -> Result<Molecules, SmilesError> {
        Molecules::parse(&split(text).unwrap())
    }

    /// Each atom as symbol, hydrogens and neighbours.
    fn check(text: &str, want: &str) {
        let molecules = read(text).unwrap();
        let atom = |(i, atom): (usize, &Atom)| {
            let mut bonded = molecules.neighbours(i).to_vec();
            bonded.sort_unstable();
            let bonded: Vec<_> = bonded.iter().map(usize::to_string).collect();
            format!(
                "{}{}:{}",
                atom.element.symbol(),
                atom.hydrogens,
                bonded.join(",")
            )
        };
        let got: Vec<_> = molecules.atoms().iter().enumerate().map(atom).collect();
        assert_eq!(got.join(" "), want, "{text}");
    }

    #[test]
    fn chains_branches_and_bond_orders() {
        check("CCO", "C3:1 C2:0,2 O1:1");
        check("CC(=O)Cl", "C3:1 C0:0,2,3 O0:1 Cl0:1");
        check("C(C)(C(F)F)N", "C1:1,2,5 C3:0 C1:0,3,4 F0:2 F0:2 N2:0");
        check("[C-]#N", "C0:1 N0:0");
        check("F/C=C\\F", "F0:1 C1:0,2 C1:1,3 F0:2");
        check("CS(=O)(=O)O", "C3:1 S0:0,2,3,4 O0:1 O0:1 O1:1");
        check("", "");
    }

    #[test]
    fn rings_aromatic_atoms_and_their_hydrogens() {
        check("C1CC1", "C2:1,2 C2:0,2 C2:0,1");
        check("c1ccncc1", "C1:1,5 C1:0,2 C1:1,3 N0:2,4 C1:3,5 C1:0,4");
        check("c1cc[nH]c1", "C1:1,4 C1:0,2 C1:1,3 N1:2,4 C1:0,3");
        check("c1ccsc1", "C1:1,4 C1:0,2 C1:1,3 S0:2,4 C1:0,3");
        check(
            "O=c1cccc[nH]1",
            "O0:1 C0:0,2,6 C1:1,3 C1:2,4 C1:3,5 C1:4,6 N1:1,5",
        );
        check("C%12CC%12", "C2:1,2 C2:0,2 C2:0,1");
        check("C=1CC=1", "C1:1,2 C2:0,2 C1:0,1");
        check("C=1CC1", "C1:1,2 C2:0,2 C1:0,1");
        check("C1.C1", "C3:1 C3:0");
    }

    #[test]
    fn bracket_atoms() {
        check("[13CH3-]", "C3:");
        check("[C@@H](F)(Cl)Br", "C1:1,2,3 F0:0 Cl0:0 Br0:0");
        check(
            "[Fe+3].[Co@OH12++].[se].[H+].[Na+]",
            "Fe0: Co0: Se0: H0: Na0:",
        );
        check("[CH3:7][C@TH1H:12]", "C3:1 C1:0");
        check("*C", "*0:1 C3:0");
    }

    #[test]
    fn a_tilde_bonds_without_taking_valence() {
        check("[Na+]~OC", "Na0:1 O1:0,2 C3:1");
    }

    #[test]
    fn malformed_strings_are_named_with_their_place() {
        use SmilesError as E;
        let owned = str::to_owned;
        let cases = [
            (
                "C+",
                E::UnexpectedToken {
                    at: 1,
                    token: owned("+"),
                },
            ),
            (
                "C>C",
                E::UnexpectedToken {
                    at: 1,
                    token: owned(">"),
                },
            ),
            (
                "C[MASK]",
                E::UnknownElement {
                    at: 1,
                    token: owned("[MASK]"),
                },
            ),
            (
                "C[Xx]",
                E::UnknownElement {
                    at: 1,
                    token: owned("[Xx]"),
                },
            ),
            (
                "[C+H]",
                E::MalformedBracket {
                    at: 3,
                    rest: owned("H"),
                },
            ),
            (
                "[C:]",
                E::MalformedBracket {
                    at: 2,
                    rest: owned(":"),
                },
            ),
            (
                "[CH12]",
                E::MalformedBracket {
                    at: 4,
                    rest: owned("2"),
                },
            ),
            (
                "=C",
                E::NoAtomBefore {
                    at: 0,
                    token: owned("="),
                },
            ),
            (
                "1CC1",
                E::NoAtomBefore {
                    at: 0,
                    token: owned("1"),
                },
            ),
            (
                "(C)",
                E::NoAtomBefore {
                    at: 0,
                    token: owned("("),
                },
            ),
            (
                "C((C))",
                E::NoAtomBefore {
                    at: 2,
                    token: owned("("),
                },
            ),
            (
                "C(1)",
                E::NoAtomBefore {
                    at: 2,
                    token: owned("1"),
                },
            ),
            (
                ".C",
                E::NoAtomBefore {
                    at: 0,
                    token: owned("."),
                },
            ),
            (
                "C..C",
                E::NoAtomBefore {
                    at: 2,
                    token: owned("."),
                },
            ),
            ("C=", E::DanglingBond { at: 1 }),
            ("C==C", E::DanglingBond { at: 1 }),
            ("C(C=)C", E::DanglingBond { at: 3 }),
            ("C=.C", E::DanglingBond { at: 1 }),
            ("C(C", E::UnbalancedBranch { at: 1 }),
            ("C(C.C)", E::UnbalancedBranch { at: 1 }),
            ("CC)", E::UnbalancedBranch { at: 2 }),
            ("C()C", E::Empty { at: 2 }),
            ("C.", E::Empty { at: 2 }),
            ("C1CC", E::UnclosedRing { at: 1, ring: 1 }),
            ("C%10C2", E::UnclosedRing { at: 1, ring: 10 }),
            ("C=1CC#1", E::RingBondConflict { at: 6, ring: 1 }),
            ("C11", E::DuplicateBond { at: 2, ring: 1 }),
            ("C1C1", E::DuplicateBond { at: 3, ring: 1 }),
        ];
        for (text, want) in cases {
            assert_eq!(read(text), Err(want), "{text}");
        }
    }
}
