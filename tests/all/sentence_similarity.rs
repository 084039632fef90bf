//! The modules of the `sentence_similarity` example are compiled here too, so that their unit
//! tests run with `cargo test`. With EINDECOMP_MINILM naming the weights (and `tokenizer.json`
//! beside them), the model on 1, 2, 3, 4 and 8 devices is held against what is expected of it.

#[path = "../../examples/sentence_similarity/model.rs"]
pub mod model;
#[path = "../../examples/sentence_similarity/options.rs"]
mod options;
#[path = "../../examples/sentence_similarity/report.rs"]
mod report;
#[path = "../../examples/sentence_similarity/text.rs"]
mod text;

use std::path::{Path, PathBuf};

use crate::support::models::expected;
use eindecomp::ndarray::{Array2, s};
use eindecomp::{Cluster, Compiled, MemoryMode, Session};
use model::{POSITIONS, VOCABULARY, minilm};
use options::Options;
use serde::Deserialize;
use text::{Text, TextError};

const VECTOR: f64 = 1e-5;
const HIDDEN: f64 = 5e-5;
const COSINE: f64 = 1e-5;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
    cosine_matrix: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    input_ids: Vec<u32>,
    attention_mask: Vec<u8>,
    sentence_vector_all: Vec<f64>,
    layer_out_first_token_first4: Vec<Vec<f64>>,
    last_hidden_last_real_token_first8: Vec<f64>,
    last_hidden_sum_real: f64,
    last_hidden_abs_sum_real: f64,
}

impl Case {
    fn length(&self) -> usize {
        self.attention_mask.iter().filter(|&&m| m == 1).count()
    }
}

/// The weights that EINDECOMP_MINILM names.
fn weights() -> Option<PathBuf> {
    std::env::var_os("EINDECOMP_MINILM").map(PathBuf::from)
}

/// Rows padded to the longest.
fn inputs(cases: &[&Case]) -> minilm::Inputs {
    let columns = cases.iter().map(|case| case.length()).max().unwrap_or(0);
    let shape = (cases.len(), columns);
    let real = |r: usize, c| c < cases[r].length();
    minilm::Inputs {
        ids: Array2::from_shape_fn(
            shape,
            |(r, c)| {
                if real(r, c) { cases[r].input_ids[c] } else { 0 }
            },
        ),
        mask: Array2::from_shape_fn(shape, |(r, c)| real(r, c)),
    }
}

fn compiled(
    devices: u32,
    memory: MemoryMode,
    inputs: &minilm::Inputs,
    weights: &minilm::Weights,
) -> Compiled<minilm::Model> {
    let (b, s) = inputs.ids.dim();
    Session::builder()
        .cluster(Cluster::cpus(devices))
        .memory(memory)
        .no_cache()
        .build()
        .unwrap()
        .compile(minilm::graph(), minilm::Dims { b, s })
        .unwrap()
        .load(weights.clone())
        .unwrap()
}

fn run(model: &mut Compiled<minilm::Model>, inputs: &minilm::Inputs) -> minilm::Outputs {
    let out = model.run(inputs.clone()).unwrap();
    let moved = model.trace().traffic.moved();
    assert_eq!(
        u128::from(moved.total()),
        model.program().plan().moved_bytes
    );
    out
}

fn largest<'a>(got: impl IntoIterator<Item = &'a f32>, want: &[f64]) -> f64 {
    let far = |(&got, want): (&f32, &f64)| (f64::from(got) - want).abs();
    got.into_iter().zip(want).map(far).fold(0.0, f64::max)
}

/// Largest errors of a sentence vector and of hidden states.
fn errors(out: &minilm::Outputs, n: usize, case: &Case) -> (f64, f64) {
    let length = case.length();
    let vector = largest(out.vectors.row(n), &case.sentence_vector_all);
    let hidden = out.hidden.slice(s![n, ..length, ..]);
    let first = case.layer_out_first_token_first4.last().unwrap();
    let state = largest(hidden.row(0), first).max(largest(
        hidden.row(length - 1),
        &case.last_hidden_last_real_token_first8,
    ));
    let sum: f64 = hidden.iter().map(|&x| f64::from(x)).sum();
    let off = (sum - case.last_hidden_sum_real).abs();
    assert!(off <= 1e-5 * case.last_hidden_abs_sum_real, "sum {sum}");
    assert!(vector <= VECTOR, "{}: vector off by {vector}", case.text);
    assert!(state <= HIDDEN, "{}: hidden off by {state}", case.text);
    (vector, state)
}

#[test]
fn sentence_vectors_are_those_expected_for_any_number_of_devices() {
    let Some(weights) = weights() else {
        eprintln!("left out: EINDECOMP_MINILM names no weights");
        return;
    };
    let weights = minilm::Weights::from_safetensors(weights).unwrap();
    for (path, file) in expected::<Expected>("minilm_l6_expected.json") {
        eprintln!(
            "{}\n  P   B × S  max |Δvector|  max |Δhidden|   planned    copied    shared bytes",
            path.display()
        );
        let together: Vec<&Case> = file.cases.iter().collect();
        let alone = file.cases.iter().map(|case| vec![case]);
        for cases in [together].into_iter().chain(alone) {
            let batch = inputs(&cases);
            for devices in [1, 2, 3, 4, 8] {
                let mut model = compiled(devices, MemoryMode::Shared, &batch, &weights);
                let out = run(&mut model, &batch);
                let (vector, hidden) = cases
                    .iter()
                    .enumerate()
                    .map(|(n, case)| errors(&out, n, case))
                    .fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)));
                let (b, s) = batch.ids.dim();
                let moved = model.trace().traffic.moved();
                eprintln!(
                    "{devices:3}  {b:2} × {s:2}  {vector:13.2e}  {hidden:13.2e}  {:8}  {:8}  {:8}",
                    model.program().plan().moved_bytes,
                    moved.copied,
                    moved.shared,
                );
                if cases.len() > 1 {
                    let cosines = out.vectors.dot(&out.vectors.t());
                    for (got, want) in cosines.outer_iter().zip(&file.cosine_matrix) {
                        assert!(largest(got, want) <= COSINE);
                    }
                }
                let mut private = compiled(devices, MemoryMode::Private, &batch, &weights);
                assert!(run(&mut private, &batch).vectors == out.vectors);
            }
        }
    }
}

#[test]
fn sentences_become_the_expected_tokens() {
    let Some(weights) = weights() else {
        eprintln!("left out: EINDECOMP_MINILM names no weights");
        return;
    };
    let path = weights.with_file_name("tokenizer.json");
    for (_, file) in expected::<Expected>("minilm_l6_expected.json") {
        let sentences: Vec<&str> = file.cases.iter().map(|case| &*case.text).collect();
        let text = Text::open(&path, POSITIONS).unwrap();
        let batch = text.encode(&sentences).unwrap();
        let cases: Vec<&Case> = file.cases.iter().collect();
        let want = inputs(&cases);
        assert_eq!(batch.shape, want.ids.dim());
        assert!(batch.ids.iter().eq(&want.ids));
        assert!(batch.mask.iter().eq(&want.mask));
        assert!(batch.ids.iter().all(|&id| (id as usize) < VOCABULARY));
        // longer than the model reads: cut, the last token kept
        let long = text.encode(&["word ".repeat(600).as_str()]).unwrap();
        assert_eq!(long.shape, (1, POSITIONS));
        assert!(matches!(text.encode(&[]), Err(TextError::Empty)));
    }
}

#[test]
fn a_folder_without_the_model_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let typed = folder.path().display().to_string();
    let options = Options::parse([typed]).unwrap();
    let tokenizer = options.tokenizer().unwrap();
    let error = Text::open(&tokenizer, POSITIONS).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
    let weights = options.weights().unwrap();
    let error = minilm::Weights::from_safetensors(&weights).unwrap_err();
    assert!(error.to_string().contains("model.safetensors"), "{error}");
    std::fs::write(Path::new(&tokenizer), "garbage").unwrap();
    assert!(matches!(
        Text::open(&tokenizer, POSITIONS),
        Err(TextError::Tokenizer { .. })
    ));
}
