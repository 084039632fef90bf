//! The modules of the `reaction_mapper` example are compiled here too, so that their unit tests
//! run with `cargo test`; they and the model on devices are held against what the Python package
//! rxnmapper gives.

mod on_devices;
mod sessions;

#[path = "../../../examples/reaction_mapper/bracket.rs"]
mod bracket;
#[path = "../../../examples/reaction_mapper/element.rs"]
mod element;
#[path = "../../../examples/reaction_mapper/mapping.rs"]
mod mapping;
#[path = "../../../examples/reaction_mapper/model.rs"]
pub mod model;
#[path = "../../../examples/reaction_mapper/options.rs"]
mod options;
#[path = "../../../examples/reaction_mapper/prediction.rs"]
mod prediction;
#[path = "../../../examples/reaction_mapper/reaction.rs"]
mod reaction;
#[path = "../../../examples/reaction_mapper/report.rs"]
mod report;
#[path = "../../../examples/reaction_mapper/smiles.rs"]
mod smiles;
#[path = "../../../examples/reaction_mapper/tokenizer.rs"]
mod tokenizer;

use mapping::Mapping;
use model::POSITIONS;
use proptest::prelude::*;
use reaction::Reaction;
use serde::Deserialize;
use tokenizer::Vocabulary;

#[derive(Deserialize)]
struct AlbertExpected {
    cases: Vec<AlbertCase>,
}

#[derive(Deserialize)]
struct AlbertCase {
    text: String,
    tokens: Vec<String>,
    input_ids: Vec<u32>,
    attention_mask: Vec<u8>,
}

#[derive(Deserialize)]
struct MappingExpected {
    mapping: Vec<MappedReaction>,
    masked: Vec<MaskedReaction>,
}

#[derive(Deserialize)]
struct MappedReaction {
    text: String,
    input_ids: Vec<u32>,
    mapped_rxn: String,
    pxr_mapping_vector: Vec<usize>,
}

#[derive(Deserialize)]
struct MaskedReaction {
    text: String,
    input_ids: Vec<u32>,
    masked_position: usize,
    true_token: String,
}

fn vocabulary() -> Vocabulary {
    Vocabulary::parse(include_str!("../../../examples/data/rxn_albert_vocab.txt")).unwrap()
}

fn mapping_expected() -> MappingExpected {
    serde_json::from_str(include_str!("../../data/rxn_mapping_expected.json")).unwrap()
}

#[test]
fn the_padded_batch_of_the_model_cases_has_the_expected_tokens_ids_and_mask() {
    let expected: AlbertExpected =
        serde_json::from_str(include_str!("../../data/rxn_albert_expected.json")).unwrap();
    let vocabulary = vocabulary();
    let encoded: Vec<_> = expected
        .cases
        .iter()
        .map(|case| vocabulary.encode(&case.text).unwrap())
        .collect();
    for (encoding, case) in encoded.iter().zip(&expected.cases) {
        let tokens: Vec<_> = encoding
            .ids
            .iter()
            .map(|&id| vocabulary.token(id))
            .collect();
        assert_eq!(
            tokens,
            case.tokens
                .iter()
                .map(|t| Some(t.as_str()))
                .collect::<Vec<_>>()
        );
    }
    let batch = vocabulary.batch(&encoded, POSITIONS).unwrap();
    let ids: Vec<u32> = expected
        .cases
        .iter()
        .flat_map(|case| case.input_ids.clone())
        .collect();
    let mask = expected
        .cases
        .iter()
        .flat_map(|case| &case.attention_mask)
        .map(|&m| m == 1);
    assert_eq!(batch.ids, ids);
    assert_eq!(batch.mask, mask.collect::<Vec<_>>());
    assert_eq!(
        batch.shape,
        (expected.cases.len(), ids.len() / expected.cases.len())
    );
}

#[test]
fn reactions_encode_to_the_expected_ids_and_decode_back() {
    let vocabulary = vocabulary();
    for case in mapping_expected().mapping {
        let encoding = vocabulary.encode(&case.text).unwrap();
        assert_eq!(encoding.ids, case.input_ids, "{}", case.text);
        assert_eq!(vocabulary.decode(&case.input_ids).as_ref(), Ok(&encoding));
    }
}

#[test]
fn a_masked_token_is_one_token_of_the_text() {
    let vocabulary = vocabulary();
    for case in mapping_expected().masked {
        let mut tokens: Vec<_> = tokenizer::split(&case.text)
            .unwrap()
            .iter()
            .map(|token| token.text)
            .collect();
        let masked = std::mem::replace(&mut tokens[case.masked_position - 1], "[MASK]");
        assert_eq!(masked, case.true_token);
        let encoding = vocabulary.encode(&tokens.concat()).unwrap();
        assert_eq!(encoding.ids, case.input_ids, "{}", case.text);
        assert_eq!(encoding.ids[case.masked_position], vocabulary.mask());
    }
}

#[test]
fn a_mapping_is_written_as_rxnmapper_writes_it() {
    for case in mapping_expected().mapping {
        let reaction = Reaction::parse(&case.text).unwrap();
        let reactants: Vec<_> = case
            .pxr_mapping_vector
            .iter()
            .map(|&atom| Some(atom))
            .collect();
        let confidences = vec![1.0; reactants.len()];
        let written = reaction.write_mapped(&Mapping::new(reactants, confidences));
        assert_eq!(written, case.mapped_rxn);
    }
}

#[test]
fn a_mapped_reaction_reads_as_the_same_molecules() {
    for case in mapping_expected().mapping {
        let plain = Reaction::parse(&case.text).unwrap();
        let mapped = Reaction::parse(&case.mapped_rxn).unwrap();
        for (a, b) in [
            (plain.reactants(), mapped.reactants()),
            (plain.products(), mapped.products()),
        ] {
            assert_eq!(a.atoms().len(), b.atoms().len());
            for (i, (x, y)) in a.atoms().iter().zip(b.atoms()).enumerate() {
                assert_eq!(
                    (x.element, x.hydrogens),
                    (y.element, y.hydrogens),
                    "{}",
                    case.text
                );
                assert_eq!(a.neighbours(i), b.neighbours(i), "{}", case.text);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_string_is_read_or_refused(text in "[CNclO()\\[\\]=#.~%0-9H@+:>-]{0,24}|.*") {
        if let Ok(reaction) = Reaction::parse(&text) {
            let unmapped = vec![None; reaction.products().atoms().len()];
            let confidences = vec![1.0; unmapped.len()];
            let mapping = Mapping::new(unmapped, confidences);
            prop_assert_eq!(reaction.write_mapped(&mapping), text.clone());
        }
        if let Ok(encoding) = vocabulary().read(&text) {
            let length = encoding.ids.len();
            let batch = vocabulary().batch(&[encoding], POSITIONS);
            prop_assert!(length > POSITIONS || length == 2 || batch.is_ok());
        }
    }
}
