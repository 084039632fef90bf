//! The pretrained model on 1, 2, 3, 4 and 8 devices: logits and attention within the tolerances of
//! an f32 build, the same bits in every run, and what rxnmapper reads from them.

use eindecomp::ndarray::{Array2, s};
use eindecomp::{Cluster, Compiled, MemoryMode, Session};
use serde::Deserialize;

use super::mapping;
use super::model::{MAPPING_HEAD, VOCABULARY, albert};
use super::prediction::predict;
use super::reaction::Reaction;
use super::vocabulary;
use crate::support::models::expected;

pub const WEIGHTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/data/rxn_albert.safetensors"
);
const DEVICES: [u32; 5] = [1, 2, 3, 4, 8];
const LOGIT: f64 = 2e-3;
const ATTENTION: f64 = 2e-5;
/// Of the sum of absolute logits.
const SUM: f64 = 1e-5;

#[derive(Deserialize)]
struct AlbertExpected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    input_ids: Vec<u32>,
    attention_mask: Vec<u8>,
    mlm_argmax: Vec<usize>,
    logits_first_token_first16: Vec<f64>,
    logits_token3_first16: Vec<f64>,
    logits_sum_real: f64,
    logits_abs_sum_real: f64,
    attention_layer10_head5_row1: Vec<f64>,
}

impl Case {
    fn length(&self) -> usize {
        self.attention_mask.iter().filter(|&&m| m == 1).count()
    }
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
    confidence: f64,
    pxr_mapping_vector: Vec<usize>,
}

#[derive(Deserialize)]
struct MaskedReaction {
    text: String,
    input_ids: Vec<u32>,
    masked_position: usize,
    top5: Vec<String>,
    top5_logits: Vec<f64>,
}

/// Rows padded to the longest.
pub fn inputs(rows: &[&[u32]]) -> albert::Inputs {
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let shape = (rows.len(), columns);
    albert::Inputs {
        ids: Array2::from_shape_fn(shape, |(r, c)| rows[r].get(c).copied().unwrap_or(0)),
        mask: Array2::from_shape_fn(shape, |(r, c)| c < rows[r].len()),
    }
}

fn real(case: &Case) -> &[u32] {
    &case.input_ids[..case.length()]
}

/// A session that plans in memory only, and the model at the dims of `inputs`.
fn compiled(
    devices: u32,
    workers: usize,
    memory: MemoryMode,
    inputs: &albert::Inputs,
) -> Compiled<albert::Model> {
    let (b, s) = inputs.ids.dim();
    Session::builder()
        .cluster(Cluster::cpus(devices))
        .workers(workers)
        .memory(memory)
        .no_cache()
        .build()
        .unwrap()
        .compile(albert::graph(), albert::Dims { b, s })
        .unwrap()
        .load_file(WEIGHTS)
        .unwrap()
}

/// Runs, and holds the bytes that moved against the plan and the other end of each move.
fn run(model: &mut Compiled<albert::Model>, inputs: &albert::Inputs) -> albert::Outputs {
    let out = model.run(inputs.clone()).unwrap();
    let traffic = &model.trace().traffic;
    let planned = model.program().plan().moved_bytes;
    assert_eq!(u128::from(traffic.moved().total()), planned);
    for (pair, received) in &traffic.received {
        assert_eq!(traffic.sent.get(pair), Some(&received.total()), "{pair:?}");
    }
    out
}

fn bits(out: &albert::Outputs) -> Vec<u32> {
    let values = out.logits.iter().chain(&out.attention);
    values.map(|value| value.to_bits()).collect()
}

/// Largest errors of logits and of attention weights.
#[derive(Clone, Copy, Default)]
struct Errors {
    logit: f64,
    attention: f64,
}

impl Errors {
    fn largest(self, other: Self) -> Self {
        Self {
            logit: self.logit.max(other.logit),
            attention: self.attention.max(other.attention),
        }
    }

    /// Of the row `n` of a batch against what is expected there.
    fn of(out: &albert::Outputs, n: usize, case: &Case) -> Self {
        let length = case.length();
        let logits = out.logits.slice(s![n, ..length, ..]);
        let far = |got: f32, want: f64| (f64::from(got) - want).abs();
        let mut errors = Self::default();
        for (position, sample) in [
            (0, &case.logits_first_token_first16),
            (3, &case.logits_token3_first16),
        ] {
            for (&got, &want) in logits.row(position).iter().zip(sample) {
                errors.logit = errors.logit.max(far(got, want));
            }
        }
        let row = out.attention.slice(s![n, MAPPING_HEAD, 1, ..]);
        for (t, (&got, &want)) in row
            .iter()
            .zip(&case.attention_layer10_head5_row1)
            .enumerate()
        {
            assert!(t < length || got == 0.0, "attention to padding");
            errors.attention = errors.attention.max(far(got, want));
        }
        let sum: f64 = logits.iter().map(|&x| f64::from(x)).sum();
        let off = (sum - case.logits_sum_real).abs();
        assert!(
            off <= SUM * case.logits_abs_sum_real,
            "{}: sum {sum}",
            case.text
        );
        for (position, row) in logits.outer_iter().enumerate() {
            let row: Vec<f32> = row.to_vec();
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            assert_eq!(
                best,
                Some(case.mlm_argmax[position]),
                "{} at {position}",
                case.text
            );
        }
        assert!(
            errors.logit <= LOGIT,
            "{}: logit off by {}",
            case.text,
            errors.logit
        );
        assert!(
            errors.attention <= ATTENTION,
            "{}: attention off by {}",
            case.text,
            errors.attention
        );
        errors
    }
}

/// Runs the cases as one batch: what is expected, and the same bits again, with other workers and
/// in private memories.
fn check(devices: u32, cases: &[&Case]) {
    let rows: Vec<&[u32]> = cases.iter().map(|case| real(case)).collect();
    let batch = inputs(&rows);
    let mut model = compiled(devices, 2, MemoryMode::Shared, &batch);
    let out = run(&mut model, &batch);
    let errors = cases
        .iter()
        .enumerate()
        .map(|(n, case)| Errors::of(&out, n, case))
        .fold(Errors::default(), Errors::largest);
    let moved = model.trace().traffic.moved();
    let (b, s) = batch.ids.dim();
    eprintln!(
        "{devices:3}  {b:2} × {s:2}  {:12.2e}  {:16.2e}  {:8}  {:8}  {:8}",
        errors.logit,
        errors.attention,
        model.program().plan().moved_bytes,
        moved.copied,
        moved.shared,
    );
    let want = bits(&out);
    assert!(bits(&run(&mut model, &batch)) == want, "a second run");
    for (workers, memory) in [
        (1, MemoryMode::Shared),
        (7, MemoryMode::Shared),
        (2, MemoryMode::Private),
    ] {
        let mut other = compiled(devices, workers, memory, &batch);
        let out = run(&mut other, &batch);
        assert!(bits(&out) == want, "{workers} workers, {memory:?}");
        let moved = other.trace().traffic.moved();
        assert!(memory == MemoryMode::Shared || moved.shared == 0);
    }
}

#[test]
fn logits_and_attention_are_those_expected_for_any_number_of_devices() {
    for (path, file) in expected::<AlbertExpected>("rxn_albert_expected.json") {
        eprintln!(
            "{}\n  P   B × S  max |Δlogit|  max |Δattention|   planned    copied    shared bytes",
            path.display()
        );
        for devices in DEVICES {
            check(devices, &file.cases.iter().collect::<Vec<_>>());
            for case in &file.cases {
                check(devices, &[case]);
            }
        }
    }
}

#[test]
fn atoms_are_mapped_as_rxnmapper_maps_them() {
    for (_, file) in expected::<MappingExpected>("rxn_mapping_expected.json") {
        let rows: Vec<&[u32]> = file.mapping.iter().map(|m| &m.input_ids[..]).collect();
        let batch = inputs(&rows);
        let out = run(&mut compiled(4, 2, MemoryMode::Shared, &batch), &batch);
        for (n, case) in file.mapping.iter().enumerate() {
            let reaction = Reaction::parse(&case.text).unwrap();
            let attention = out.attention.slice(s![n, MAPPING_HEAD, .., ..]);
            let mapping =
                mapping::by_neighbours(&reaction, |from, to| attention[[from, to]].into());
            let got: Vec<_> = mapping.reactants().iter().flatten().copied().collect();
            assert_eq!(got, case.pxr_mapping_vector, "{}", case.text);
            let (got, want) = (mapping.confidence(), case.confidence);
            assert!(
                (got - want).abs() <= 1e-5 * want,
                "{}: confidence {got} instead of {want}",
                case.text
            );
        }
    }
}

#[test]
fn masked_tokens_are_predicted() {
    let vocabulary = vocabulary();
    for (_, file) in expected::<MappingExpected>("rxn_mapping_expected.json") {
        let rows: Vec<&[u32]> = file.masked.iter().map(|m| &m.input_ids[..]).collect();
        let batch = inputs(&rows);
        let out = run(&mut compiled(3, 2, MemoryMode::Shared, &batch), &batch);
        for (n, case) in file.masked.iter().enumerate() {
            let logits: Vec<f32> = out.logits.slice(s![n, .., ..]).iter().copied().collect();
            let predictions = predict(&case.input_ids, vocabulary.mask(), &logits, VOCABULARY, 5);
            let [prediction] = &predictions[..] else {
                panic!("one token is masked, not {}", predictions.len())
            };
            assert_eq!(prediction.position, case.masked_position, "{}", case.text);
            let tokens: Vec<_> = prediction
                .candidates
                .iter()
                .map(|c| vocabulary.token(c.0).unwrap())
                .collect();
            assert_eq!(tokens, case.top5, "{}", case.text);
            for (&(_, got), want) in prediction.candidates.iter().zip(&case.top5_logits) {
                let off = (f64::from(got) - want).abs();
                assert!(off <= LOGIT, "{}: {got} instead of {want}", case.text);
            }
        }
    }
}
