//! A reaction: reactants and products, where their atoms stand in the model's input, and the
//! reaction written with atom map numbers.

use super::mapping::Mapping;
use super::smiles::{Atom, Molecules, SmilesError};
use super::tokenizer::{Token, TokenError, split};

/// Why a string is not a reaction that can be mapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReactionError {
    /// A character that begins no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// One of the sides is not a SMILES.
    #[error(transparent)]
    Smiles(#[from] SmilesError),
    /// Not one `>>` between the sides.
    #[error("a reaction has one `>>`, this has {found}")]
    Arrows {
        /// How many there are.
        found: usize,
    },
    /// Nothing on one side of the arrow.
    #[error("there are no {side}")]
    EmptySide {
        /// `reactants` or `products`.
        side: &'static str,
    },
}

/// Both sides of a reaction `reactants>>products`.
#[derive(Clone, Debug)]
pub struct Reaction<'a> {
    tokens: Vec<Token<'a>>,
    /// Where the `>>` is among the tokens.
    arrow: usize,
    reactants: Molecules,
    products: Molecules,
}

/// The form the model was trained on: agents, if written between the arrows, are reactants.
pub fn with_agents_as_reactants(text: &str) -> String {
    match text.split('>').collect::<Vec<_>>()[..] {
        ["", agents, products] if !agents.is_empty() => format!("{agents}>>{products}"),
        [reactants, agents, products] if !agents.is_empty() => {
            format!("{reactants}.{agents}>>{products}")
        }
        _ => text.to_owned(),
    }
}

impl<'a> Reaction<'a> {
    /// Reads a reaction SMILES.
    ///
    /// # Errors
    /// Not one `>>`, an empty side, or a malformed one.
    pub fn parse(text: &'a str) -> Result<Self, ReactionError> {
        let tokens = split(text)?;
        let arrows = || (0..tokens.len()).filter(|&i| tokens[i].text == ">>");
        let (Some(arrow), None) = (arrows().next(), arrows().nth(1)) else {
            return Err(ReactionError::Arrows {
                found: arrows().count(),
            });
        };
        let side = |range: &[Token], side| match Molecules::parse(range)? {
            molecules if molecules.atoms().is_empty() => Err(ReactionError::EmptySide { side }),
            molecules => Ok(molecules),
        };
        let reactants = side(&tokens[..arrow], "reactants")?;
        let products = side(&tokens[arrow + 1..], "products")?;
        Ok(Self {
            tokens,
            arrow,
            reactants,
            products,
        })
    }

    /// The molecules before the arrow.
    pub fn reactants(&self) -> &Molecules {
        &self.reactants
    }

    /// The molecules after the arrow.
    pub fn products(&self) -> &Molecules {
        &self.products
    }

    /// Where a reactant atom stands in the model's input, `[CLS]` being 0.
    pub fn reactant_position(&self, atom: usize) -> usize {
        1 + self.reactants.atoms()[atom].token
    }

    /// Where a product atom stands in the model's input.
    pub fn product_position(&self, atom: usize) -> usize {
        2 + self.arrow + self.products.atoms()[atom].token
    }

    /// The reaction with map numbers, product atoms counted from 1 and each mapped reactant atom
    /// bearing the number of its product atom; atoms that correspond to none are left as written.
    pub fn write_mapped(&self, mapping: &Mapping) -> String {
        let mut numbers = vec![None; self.tokens.len()];
        for (product, reactant) in mapping.pairs() {
            numbers[self.product_position(product) - 1] =
                Some((product + 1, &self.products.atoms()[product]));
            numbers[self.reactant_position(reactant) - 1] =
                Some((product + 1, &self.reactants.atoms()[reactant]));
        }
        let written = self
            .tokens
            .iter()
            .zip(numbers)
            .map(|(token, number)| match number {
                Some((number, atom)) => numbered_atom(token.text, atom, number),
                None => token.text.to_owned(),
            });
        written.collect()
    }
}

/// `C` → `[CH3:1]`, `[O-]` → `[O-:1]`, `[CH3:9]` → `[CH3:1]`.
fn numbered_atom(token: &str, atom: &Atom, number: usize) -> String {
    match token
        .strip_prefix('[')
        .and_then(|token| token.strip_suffix(']'))
    {
        Some(inside) => {
            let unmapped = inside.split(':').next().unwrap_or(inside);
            format!("[{unmapped}:{number}]")
        }
        None => match atom.hydrogens {
            0 => format!("[{token}:{number}]"),
            1 => format!("[{token}H:{number}]"),
            count => format!("[{token}H{count}:{number}]"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_know_their_place_in_the_models_input() {
        let reaction = Reaction::parse("C(=O)Cl.N>>NC=O").unwrap();
        let reactants: Vec<_> = (0..4)
            .map(|atom| reaction.reactant_position(atom))
            .collect();
        let products: Vec<_> = (0..3).map(|atom| reaction.product_position(atom)).collect();
        assert_eq!((reactants, products), (vec![1, 4, 6, 8], vec![10, 11, 13]));
    }

    #[test]
    fn map_numbers_replace_old_ones_and_keep_hydrogens() {
        let reaction = Reaction::parse("Cl[CH2:7]c1cc[nH]c1.[OH-]>>OC").unwrap();
        let mapping = Mapping::new(vec![Some(7), Some(1)], vec![1.0, 1.0]);
        assert_eq!(
            reaction.write_mapped(&mapping),
            "Cl[CH2:2]c1cc[nH]c1.[OH-:1]>>[OH:1][CH3:2]"
        );
        let partly = Mapping::new(vec![None, Some(3)], vec![1.0, 1.0]);
        assert_eq!(
            reaction.write_mapped(&partly),
            "Cl[CH2:7]c1[cH:2]c[nH]c1.[OH-]>>O[CH3:2]"
        );
    }

    #[test]
    fn agents_become_reactants() {
        assert_eq!(with_agents_as_reactants("C.O>[Na+]>CO"), "C.O.[Na+]>>CO");
        assert_eq!(with_agents_as_reactants(">[Na+]>CO"), "[Na+]>>CO");
        for same in ["C>>CO", "C", "", "C>>C>>C"] {
            assert_eq!(with_agents_as_reactants(same), same);
        }
    }

    #[test]
    fn what_is_not_a_reaction_is_refused() {
        let error = |text| Reaction::parse(text).unwrap_err();
        assert_eq!(error("CC"), ReactionError::Arrows { found: 0 });
        assert_eq!(error("C>>C>>C"), ReactionError::Arrows { found: 2 });
        assert_eq!(error(">>C"), ReactionError::EmptySide { side: "reactants" });
        assert_eq!(error("C>>"), ReactionError::EmptySide { side: "products" });
        assert!(matches!(error("C>>X"), ReactionError::Token(_)));
        assert_eq!(
            error("C>>C("),
            SmilesError::UnbalancedBranch { at: 4 }.into()
        );
    }
}
