//! The example models in `ein!`: their graphs, and what the reaction model gives on the reference
//! interpreter.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::reaction_mapper::model::{MAPPING_HEAD, albert};
use crate::sentence_similarity::model::minilm;
use eindecomp::{Pack, Tensors};
use eindecomp_core::ein::DType;
use eindecomp_core::graph::{EinGraph, Role};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_runtime::{Data, Tensor};
use ndarray::Array2;
use serde::Deserialize;

/// Inputs of a role, and statements.
fn sizes(graph: &EinGraph) -> (usize, usize, usize) {
    let count = |role| graph.nodes().iter().filter(|n| n.role() == role).count();
    (
        count(Some(Role::Data)),
        count(Some(Role::Weight)),
        count(None),
    )
}

#[test]
fn both_models_are_graphs() {
    let graph = albert::graph().into_graph().unwrap();
    let (data, weights, statements) = sizes(&graph);
    assert_eq!((data, weights), (2, 7 + 16 + 5));
    assert!(statements > 12 * 20, "{statements}");
    assert_eq!(graph.verify(), Ok(()));

    let graph = minilm::graph().into_graph().unwrap();
    let (data, weights, statements) = sizes(&graph);
    assert_eq!((data, weights), (2, 5 + 6 * 16));
    assert!(statements > 6 * 20, "{statements}");
    assert_eq!(graph.verify(), Ok(()));
}

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    input_ids: Vec<u32>,
    attention_mask: Vec<u32>,
    logits_first_token_first16: Vec<f64>,
    logits_sum_real: f64,
    attention_layer10_head5_row1: Vec<f64>,
}

fn as_reference(tensor: &Tensor) -> RefTensor {
    let shape = tensor.shape().to_vec();
    match tensor.data() {
        Data::F32(v) => {
            let values: Vec<f64> = v.iter().map(|&x| x.into()).collect();
            RefTensor::from_f64(DType::F32, shape, &values)
        }
        Data::U32(v) => {
            let values: Vec<i64> = v.iter().map(|&x| x.into()).collect();
            RefTensor::from_i64(DType::U32, shape, &values)
        }
        Data::Bool(v) => {
            let values = v
                .iter()
                .map(|&b| eindecomp_core::ein::Value::Bool(b))
                .collect();
            RefTensor::new(DType::Bool, shape, values)
        }
        other => panic!("the models have no {}", other.dtype()),
    }
    .unwrap()
}

/// The real tokens of the shortest case; the padded ones change nothing for them.
#[test]
fn the_reaction_model_gives_what_is_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("tests/data/rxn_albert_expected.json")).unwrap();
    let expected: Expected = serde_json::from_str(&text).unwrap();
    let real = |case: &Case| case.attention_mask.iter().sum::<u32>() as usize;
    let case = expected.cases.into_iter().min_by_key(real).unwrap();
    let length = real(&case);

    let ids = case.input_ids[..length].to_vec();
    let inputs = albert::Inputs {
        ids: Array2::from_shape_vec((1, length), ids).unwrap(),
        mask: Array2::from_elem((1, length), true),
    };
    let weights = root.join("examples/data/rxn_albert.safetensors");
    let weights = albert::Weights::from_safetensors(weights).unwrap();
    let mut tensors = Tensors::new();
    inputs.pack(&mut tensors);
    weights.pack(&mut tensors);
    let given: BTreeMap<Arc<str>, RefTensor> = tensors
        .as_map()
        .iter()
        .map(|(name, tensor)| (name.as_str().into(), as_reference(tensor)))
        .collect();

    let dims = BTreeMap::from([("B".into(), 1), ("S".into(), length as i64)]);
    let bound = albert::graph().into_graph().unwrap().bind(&dims).unwrap();
    let results = reference::run(&bound, &given).unwrap();
    let (logits, attention) = (results[0].to_f64(), results[1].to_f64());

    let close = |got: f64, want: f64, tolerance: f64| {
        assert!((got - want).abs() <= tolerance, "{got} instead of {want}");
    };
    for (got, want) in logits.iter().zip(&case.logits_first_token_first16) {
        close(*got, *want, 2e-3);
    }
    let sum: f64 = logits.iter().sum();
    close(sum, case.logits_sum_real, 2e-3 * logits.len() as f64);
    let row = (MAPPING_HEAD * length + 1) * length;
    for (got, want) in attention[row..row + length]
        .iter()
        .zip(&case.attention_layer10_head5_row1)
    {
        close(*got, *want, 2e-5);
    }
}
