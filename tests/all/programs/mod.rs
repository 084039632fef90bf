//! Random well-typed programs × devices × planned and random placements × memory modes ≡ reference:
//! bit for bit where nothing rounds, within a bound where something does; with measured bytes =
//! planned bytes and pins kept. A program with states runs several times, some resets between, and its
//! states are compared too.

mod generate;
mod kernels;
mod run;
mod shrink;

use std::collections::BTreeMap;

use run::{Outcome, Runner};

/// In `cargo test`.
const SAMPLE: u64 = 400;

/// Parts of the language that a sample must reach.
const FEATURES: [&str; 112] = [
    "softmax_sum",
    "an aggregation of one's own",
    "f64",
    "f32",
    "bf16",
    "f16",
    "i64",
    "i32",
    "u32",
    "u8",
    "bool",
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "logsumexp",
    "any",
    "all",
    "argmax",
    "argmin",
    "a product",
    "a filter",
    "an accumulator",
    "exp",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "recip",
    "pow",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "softplus",
    "silu",
    "gelu",
    "gelu_tanh",
    "a sign",
    "max and min of two",
    "integer /",
    "integer %",
    "float %",
    "as",
    "if",
    "is_nan",
    "a comparison",
    "a comparison of indices",
    "an index as a value",
    "a dim as a value",
    "a value outside",
    "a guard",
    "an affine guard",
    "an affine access that leaves",
    "a strided access",
    "a window",
    "a halved index",
    "a reversed axis",
    "a clamped index",
    "a periodic access",
    "a gather",
    "merged axes on the left",
    "merged axes on the right",
    "where a divisor",
    "where a definition",
    "where a product",
    "where a bound",
    "where an order",
    "a Rust const",
    "#[weight]",
    "#[host]",
    "#[whole]",
    "several results",
    "a scalar function",
    "a struct",
    "a struct in a struct",
    "a call",
    "a literal as an argument",
    "a call of any rank",
    "a dtype variable",
    "for over an array",
    "for over a range",
    "an extent of 0",
    "an extent of 1",
    "#[host] of a call",
    "#[split]",
    "a call in a call",
    "a computed position",
    "a kernel",
    "a loop in a loop",
    "a loop number as a value",
    "a state",
    "a state as a result",
    "a state as a value",
    "a statement in a loop",
    "a store",
    "a store along a diagonal",
    "a store at a position",
    "a store at one place",
    "a store from 0",
    "a store from a position on",
    "a store in a call",
    "a store in a loop",
    "a store into a ring",
    "a struct of states",
    "a tuple carried by a loop",
    "for over arrays side by side",
    "several dim ..",
    "a store at a loop number",
    "a store into a window",
];

#[test]
fn what_is_accepted_runs_equal_to_the_reference() {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    let cases = number("PROPTEST_CASES").unwrap_or(SAMPLE);
    let first = number("PROGRAM_FIRST").unwrap_or(0);
    let runner = Runner::new();
    let (mut refused, mut unbound, mut ran, mut failed) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut features: BTreeMap<&str, u64> = FEATURES.iter().map(|f| (*f, 0)).collect();
    let mut faults = BTreeMap::new();
    for seed in first..first + cases {
        let program = generate::program(seed);
        match runner.run(&program, seed) {
            Outcome::Refused(why) => {
                refused += 1;
                if std::env::var_os("PROGRAM_SHOW").is_some() {
                    println!("program {seed} is refused: {why}\n{}", program.text);
                }
            }
            Outcome::Unbound => unbound += 1,
            Outcome::Fails => failed += 1,
            Outcome::Ran => ran += 1,
            Outcome::Fault(what) => {
                let kind = shrink::kind(&what);
                if faults.len() < 12 && !faults.contains_key(&kind) {
                    let least = shrink::least(&runner, &program, seed, &what);
                    let dims = &program.dims;
                    faults.insert(kind, format!("program {seed}: {what}\n{dims:?}\n{least}"));
                }
                continue;
            }
        }
        for feature in &program.features {
            *features.entry(feature).or_default() += 1;
        }
    }
    let shown: Vec<String> = features.iter().map(|(f, n)| format!("{f} {n}")).collect();
    println!(
        "{cases} programs: {ran} run equal to the reference, {failed} fail in both, {unbound} do \
         not bind, {refused} are refused\n{}",
        shown.join(", ")
    );
    let faults: Vec<String> = faults.into_values().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(
        (refused + unbound + failed) * 10 < cases,
        "too few programs run"
    );
    if first == 0 && cases >= SAMPLE {
        let missing: Vec<_> = features.iter().filter(|f| *f.1 == 0).collect();
        assert!(missing.is_empty(), "{missing:?} are in no program");
        let unknown: Vec<_> = features.keys().filter(|f| !FEATURES.contains(f)).collect();
        assert!(unknown.is_empty(), "{unknown:?} are not listed");
    }
}
