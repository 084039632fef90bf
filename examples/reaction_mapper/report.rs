//! Tables for a chemist: where each product atom came from, and what masked tokens are.

use std::fmt::Write as _;

use super::mapping::Mapping;
use super::prediction::Prediction;
use super::reaction::Reaction;
use super::tokenizer::Vocabulary;

/// A line per product atom: the reactant atom by attention alone, and with bonded neighbours
/// weighed in, each with its weight; then the reaction with map numbers.
pub fn atom_table(reaction: &Reaction, plain: &Mapping, bonded: &Mapping) -> String {
    let mut table = String::from("  product atom   by attention alone   neighbours weighed in\n");
    for (product, atom) in reaction.products().atoms().iter().enumerate() {
        let partner = |mapping: &Mapping| match mapping.reactants()[product] {
            Some(reactant) => {
                let element = reaction.reactants().atoms()[reactant].element.symbol();
                format!(
                    "{element}{} ({:.3})",
                    reactant + 1,
                    mapping.confidences()[product]
                )
            }
            None => "none".to_owned(),
        };
        let name = format!("{}{}", atom.element.symbol(), product + 1);
        let (alone, weighed) = (partner(plain), partner(bonded));
        let mark = if plain.reactants()[product] == bonded.reactants()[product] {
            ' '
        } else {
            '*'
        };
        let _ = writeln!(table, "  {name:<12} {mark} {alone:<20} {weighed}");
    }
    let _ = writeln!(table, "  confidence {:.3}", bonded.confidence());
    let _ = writeln!(table, "  {}", reaction.write_mapped(bonded));
    table
}

/// A line per masked position: its likeliest tokens with their logits.
pub fn prediction_table(vocabulary: &Vocabulary, predictions: &[Prediction]) -> String {
    let mut table = String::new();
    for prediction in predictions {
        let _ = write!(table, "  token {:<4}", prediction.position);
        for &(token, logit) in &prediction.candidates {
            let _ = write!(
                table,
                "  {} {logit:.2}",
                vocabulary.token(token).unwrap_or("?")
            );
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_per_product_atom_marks_where_the_readings_differ() {
        let reaction = Reaction::parse("CC.Cl>>CBr").unwrap();
        let plain = Mapping::new(vec![Some(1), None], vec![0.25, 1.0]);
        let bonded = Mapping::new(vec![Some(0), None], vec![0.5, 1.0]);
        let want = "  product atom   by attention alone   neighbours weighed in
  C1           * C2 (0.250)           C1 (0.500)
  Br2            none                 none
  confidence 0.500
  [CH3:1]C.Cl>>[CH3:1]Br
";
        assert_eq!(atom_table(&reaction, &plain, &bonded), want);
    }

    #[test]
    fn a_line_per_masked_token() {
        let vocabulary = Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nC\n").unwrap();
        let prediction = Prediction {
            position: 7,
            candidates: vec![(5, 18.553), (0, -0.5)],
        };
        let table = prediction_table(&vocabulary, &[prediction]);
        assert_eq!(table, "  token 7     C 18.55  [PAD] -0.50\n");
    }
}
