//! Maps the atoms of chemical reactions with a pretrained ALBERT, decomposed over devices.
//!
//! The model is written in `ein!` (`model.rs`). Its attention in layer 10, head 5, follows atoms
//! from products to reactants, though it was trained only to guess masked tokens.

mod bracket;
mod element;
mod mapping;
mod model;
mod options;
mod prediction;
mod reaction;
mod report;
mod smiles;
mod tokenizer;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use eindecomp::ndarray::{Array2, s};
use eindecomp::{Cluster, Compiled, Session};
use model::{MAPPING_HEAD, VOCABULARY, albert};
use options::{Options, USAGE};
use reaction::Reaction;
use tokenizer::{Encoding, Vocabulary};

const WEIGHTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/data/rxn_albert.safetensors"
);
/// An amide coupling; one aromatic carbon of its product is masked.
const DEMO: &str = "CC(=O)O.NCc1ccccc1>>CC(=O)NC[MASK]1ccccc1";
/// What the Python package rxnmapper 0.4.3 gives.
const KNOWN: &str = include_str!("../../tests/data/rxn_mapping_expected.json");

fn main() -> ExitCode {
    // Warnings of the library, such as an unusable plan cache.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    if options.help {
        println!("{USAGE}");
        return Ok(());
    }
    let vocabulary = Vocabulary::parse(include_str!("../data/rxn_albert_vocab.txt"))?;
    let typed = if options.inputs.is_empty() {
        vec![DEMO.to_owned()]
    } else {
        options.inputs.clone()
    };
    let inputs = typed
        .iter()
        .map(|text| vocabulary.read(&reaction::with_agents_as_reactants(text)));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;

    let devices = options.devices.get();
    let session = Session::builder().cluster(Cluster::cpus(devices)).build()?;
    let (b, s) = vocabulary.batch(&inputs, model::POSITIONS)?.shape;
    let start = Instant::now();
    let compiled = session.compile(albert::graph(), albert::Dims { b, s })?;
    let compiling = start.elapsed();
    println!("{}", compiled.explain()?);
    let report = compiled.program().report();
    println!(
        "plan: {} in {:.1?}; compiled in {compiling:.1?}",
        report.origin, report.planning
    );
    let mut model = compiled.load_file(WEIGHTS)?;

    for (input, attention, predictions) in answers(&mut model, &vocabulary, &inputs)? {
        println!("\n{}", input.text);
        print!("{}", report::prediction_table(&vocabulary, &predictions));
        let text = match predictions.is_empty() {
            true => input.text,
            false => {
                let filled = prediction::fill(&input.ids, &predictions);
                vocabulary.decode(&filled)?.text
            }
        };
        match Reaction::parse(&text) {
            Ok(reaction) => {
                let from_to = |from, to| f64::from(attention[[from, to]]);
                let plain = mapping::by_attention(&reaction, from_to);
                let bonded = mapping::by_neighbours(&reaction, from_to);
                print!("{}", report::atom_table(&reaction, &plain, &bonded));
            }
            Err(error) => println!("  no atoms are mapped: {error}"),
        }
    }
    let trace = model.trace();
    let moved = trace.traffic.moved();
    println!(
        "\nran in {:.1?} on {devices} devices: {} bytes changed device ({} copied, {} read in place), as planned",
        trace.wall,
        moved.total(),
        moved.copied,
        moved.shared,
    );
    if options.inputs.is_empty() {
        agreement(&mut model, &vocabulary)?;
    }
    Ok(())
}

/// An input, its attention of [`MAPPING_HEAD`] from row to column, and what is predicted at its
/// masked tokens.
type Answer = (Encoding, Array2<f32>, Vec<prediction::Prediction>);

fn answers(
    model: &mut Compiled<albert::Model>,
    vocabulary: &Vocabulary,
    inputs: &[Encoding],
) -> Result<Vec<Answer>, Box<dyn Error>> {
    let batch = vocabulary.batch(inputs, model::POSITIONS)?;
    let out = model.run(albert::Inputs {
        ids: Array2::from_shape_vec(batch.shape, batch.ids)?,
        mask: Array2::from_shape_vec(batch.shape, batch.mask)?,
    })?;
    let answer = |(n, input): (usize, &Encoding)| {
        let logits: Vec<f32> = out.logits.slice(s![n, .., ..]).iter().copied().collect();
        let attention = out.attention.slice(s![n, MAPPING_HEAD, .., ..]).to_owned();
        let predictions =
            prediction::predict(&input.ids, vocabulary.mask(), &logits, VOCABULARY, 5);
        (input.clone(), attention, predictions)
    };
    Ok(inputs.iter().enumerate().map(answer).collect())
}

/// Maps reactions that rxnmapper has mapped, and says on how many both agree.
fn agreement(
    model: &mut Compiled<albert::Model>,
    vocabulary: &Vocabulary,
) -> Result<(), Box<dyn Error>> {
    #[derive(serde::Deserialize)]
    struct Known {
        mapping: Vec<Mapped>,
    }
    #[derive(serde::Deserialize)]
    struct Mapped {
        text: String,
        pxr_mapping_vector: Vec<usize>,
    }
    let known: Known = serde_json::from_str(KNOWN)?;
    let inputs = known
        .mapping
        .iter()
        .map(|m| vocabulary.encode(&m.text))
        .collect::<Result<Vec<_>, _>>()?;
    let (mut alone, mut weighed) = (0, 0);
    for (mapped, (input, attention, _)) in known
        .mapping
        .iter()
        .zip(answers(model, vocabulary, &inputs)?)
    {
        let reaction = Reaction::parse(&input.text)?;
        let from_to = |from, to| f64::from(attention[[from, to]]);
        let want: Vec<_> = mapped
            .pxr_mapping_vector
            .iter()
            .map(|&atom| Some(atom))
            .collect();
        alone += usize::from(mapping::by_attention(&reaction, from_to).reactants() == want);
        weighed += usize::from(mapping::by_neighbours(&reaction, from_to).reactants() == want);
    }
    let all = known.mapping.len();
    let origin = model.program().report().origin;
    println!(
        "\n{all} reactions at once, with a plan of their own ({origin}): the atom mapping is that of rxnmapper"
    );
    println!(
        "for {weighed} of {all} with bonded neighbours weighed in, for {alone} of {all} by attention alone"
    );
    Ok(())
}
