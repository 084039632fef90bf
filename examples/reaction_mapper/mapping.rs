//! Which reactant atom became which product atom, read from one attention head.
//!
//! Two readings: [`by_attention`] takes the strongest attention between atoms of one element;
//! [`by_neighbours`] is the algorithm of rxnmapper (Schwaller et al., Sci. Adv. 7, eabe4166,
//! 2021), which besides prefers atoms whose neighbours have been matched already.

use super::reaction::Reaction;

/// How much a pair gains when a bonded pair is matched (rxnmapper's default).
const NEIGHBOUR_GAIN: f64 = 90.0;

/// Confidences up to this are none (NumPy's `isclose` to 0).
const NO_CONFIDENCE: f64 = 1e-8;

/// Where each product atom came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    reactants: Vec<Option<usize>>,
    confidences: Vec<f64>,
}

impl Mapping {
    /// One entry per product atom: its reactant atom and how sure that is, in 0..=1.
    pub fn new(reactants: Vec<Option<usize>>, confidences: Vec<f64>) -> Self {
        Self {
            reactants,
            confidences,
        }
    }

    fn nothing(products: usize) -> Self {
        Self::new(vec![None; products], vec![1.0; products])
    }

    fn set(&mut self, product: usize, reactant: usize, confidence: f64) {
        self.reactants[product] = Some(reactant);
        self.confidences[product] = confidence;
    }

    /// The reactant atom of each product atom, if it has one.
    pub fn reactants(&self) -> &[Option<usize>] {
        &self.reactants
    }

    /// How sure each entry is; 1 where there is none.
    pub fn confidences(&self) -> &[f64] {
        &self.confidences
    }

    /// The confidence of the whole: the product of all.
    pub fn confidence(&self) -> f64 {
        self.confidences.iter().product()
    }

    /// Product and reactant atoms that correspond, by product atom.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let pair = |(product, reactant): (usize, &Option<usize>)| Some((product, (*reactant)?));
        self.reactants.iter().enumerate().filter_map(pair)
    }
}

/// A score per product atom (row) and reactant atom (column).
struct Scores {
    rows: Vec<Vec<f64>>,
}

impl Scores {
    /// Scores by `score(product, reactant)`, 0 between different elements.
    fn new(reaction: &Reaction, score: impl Fn(usize, usize) -> f64) -> Self {
        let (reactants, products) = (reaction.reactants().atoms(), reaction.products().atoms());
        let rows = products.iter().enumerate().map(|(p, product)| {
            let column = |(r, reactant): (usize, _)| match reactant == product.element {
                true => score(p, r),
                false => 0.0,
            };
            reactants
                .iter()
                .map(|atom| atom.element)
                .enumerate()
                .map(column)
                .collect()
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// The highest score and its place; the first of equals.
    fn best(&self) -> Option<(usize, usize, f64)> {
        let scores = self.rows.iter().enumerate().flat_map(|(product, row)| {
            row.iter()
                .enumerate()
                .map(move |(reactant, &score)| (product, reactant, score))
        });
        scores.reduce(|best, next| if next.2 > best.2 { next } else { best })
    }

    /// The same, each row divided by its sum; rows of zeros stay.
    fn normalised(&self) -> Self {
        let normalise = |row: &Vec<f64>| {
            let sum: f64 = row.iter().sum();
            row.iter()
                .map(|score| if sum == 0.0 { 0.0 } else { score / sum })
                .collect()
        };
        Self {
            rows: self.rows.iter().map(normalise).collect(),
        }
    }

    /// Takes a matched pair out of the choice.
    fn remove(&mut self, product: usize, reactant: usize) {
        self.rows[product].fill(0.0);
        for row in &mut self.rows {
            row[reactant] = 0.0;
        }
    }
}

/// For each product atom the reactant atom of the same element that it attends to most, each
/// reactant atom used once: pairs are matched from the strongest attention down, so that the
/// result does not hang on the order of writing. `attention(from, to)` is the weight between
/// positions of the model's input; the confidence of a pair is that weight.
pub fn by_attention(reaction: &Reaction, attention: impl Fn(usize, usize) -> f64) -> Mapping {
    let mut scores = Scores::new(reaction, |product, reactant| {
        attention(
            reaction.product_position(product),
            reaction.reactant_position(reactant),
        )
    });
    let mut mapping = Mapping::nothing(reaction.products().atoms().len());
    while let Some((product, reactant, score)) = scores.best().filter(|best| best.2 > 0.0) {
        mapping.set(product, reactant, score);
        scores.remove(product, reactant);
    }
    mapping
}

/// rxnmapper's mapping: attention both ways, normalised over the free reactant atoms of the
/// same element; the surest pair is matched first, and then raises the scores between its
/// neighbours in the product and its neighbours in the reactants.
pub fn by_neighbours(reaction: &Reaction, attention: impl Fn(usize, usize) -> f64) -> Mapping {
    let (reactants, products) = (reaction.reactants(), reaction.products());
    let mut scores = Scores::new(reaction, |product, reactant| {
        let product = reaction.product_position(product);
        let reactant = reaction.reactant_position(reactant);
        attention(product, reactant) + attention(reactant, product)
    });
    let mut mapping = Mapping::nothing(products.atoms().len());
    for _ in products.atoms() {
        let surest = scores
            .normalised()
            .best()
            .filter(|best| best.2 > NO_CONFIDENCE);
        let Some((product, reactant, confidence)) = surest else {
            break;
        };
        mapping.set(product, reactant, confidence);
        for &beside_product in products.neighbours(product) {
            for &beside_reactant in reactants.neighbours(reactant) {
                scores.rows[beside_product][beside_reactant] *= NEIGHBOUR_GAIN;
            }
        }
        scores.remove(product, reactant);
    }
    mapping
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attention from a product atom to a reactant atom, all other weights 0.
    fn only(weights: &[(usize, usize, f64)]) -> impl Fn(usize, usize) -> f64 + '_ {
        move |from, to| {
            weights
                .iter()
                .find(|&&(f, t, _)| (f, t) == (from, to))
                .map_or(0.0, |w| w.2)
        }
    }

    #[test]
    fn the_strongest_attention_chooses_first_and_an_atom_serves_once() {
        // Positions: C 1, C 2, O 3, >> 4, O 5, C 6.
        let reaction = Reaction::parse("CCO>>OC").unwrap();
        let weights = [(5, 1, 0.9), (5, 3, 0.1), (6, 1, 0.3), (6, 2, 0.5)];
        let mapping = by_attention(&reaction, only(&weights));
        assert_eq!(mapping.reactants(), [Some(2), Some(1)]);
        assert_eq!(mapping.confidences(), [0.1, 0.5]);

        let reaction = Reaction::parse("CC>>CC").unwrap();
        let weights = [(4, 1, 0.5), (4, 2, 0.4), (5, 1, 0.6)];
        assert_eq!(
            by_attention(&reaction, only(&weights)).reactants(),
            [Some(1), Some(0)]
        );
    }

    #[test]
    fn atoms_without_a_partner_stay_unmapped() {
        let reaction = Reaction::parse("C>>CN").unwrap();
        for map in [
            by_attention(&reaction, |_, _| 0.5),
            by_neighbours(&reaction, |_, _| 0.5),
        ] {
            assert_eq!(map.reactants(), [Some(0), None]);
            assert_eq!(map.pairs().collect::<Vec<_>>(), [(0, 0)]);
        }
    }

    #[test]
    fn not_a_number_is_never_a_match() {
        let reaction = Reaction::parse("CC>>CC").unwrap();
        assert_eq!(
            by_attention(&reaction, |_, _| f64::NAN).reactants(),
            [None, None]
        );
        assert_eq!(
            by_neighbours(&reaction, |_, _| f64::NAN).reactants(),
            [None, None]
        );
    }

    #[test]
    fn matched_neighbours_outweigh_a_little_more_attention() {
        // Positions: C 1, N 2, . 3, C 4, O 5, >> 6, C 7, N 8: the product carbon attends a
        // little more to the carbon beside the oxygen.
        let reaction = Reaction::parse("CN.CO>>CN").unwrap();
        let weights = [(7, 1, 0.4), (7, 4, 0.5), (8, 2, 0.9)];
        let [plain, bonded] = [
            by_attention(&reaction, only(&weights)),
            by_neighbours(&reaction, only(&weights)),
        ];
        assert_eq!(plain.reactants(), [Some(2), Some(1)]);
        assert_eq!(bonded.reactants(), [Some(0), Some(1)]);
        assert!((bonded.confidence() - 36.0 / 36.5).abs() < 1e-12);
    }
}
