//! Nothing that is written in an `ein!` or a text makes lexer, parser, checker, printer or expander
//! panic or hang, and what they say holds.
//!
//! Inputs are right and wrong programs with edits of tokens and subtrees, random productions of the
//! grammar, token streams without sense, and broken text. `cargo test` runs a sample;
//! `PROPTEST_CASES=n` runs `n` of them, and then an input that takes over [`SLOW`] of processor time is a
//! fault too.

mod grammar;
mod input;
mod properties;
mod shrink;
mod tokens;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use input::{Input, Kind, Seeds};

/// In `cargo test`.
const SAMPLE: u64 = 1500;
/// Processor time that no input takes.
const SLOW: Duration = Duration::from_secs(2);
/// An input that has not ended by then is printed, and the process with it.
const HANG: Duration = Duration::from_secs(60);

/// What is being run, and since when.
type Now = Arc<Mutex<Option<(Instant, String)>>>;

/// Ends the process with the input that does not end.
fn watch(now: &Now) {
    let now = Arc::downgrade(now);
    std::thread::spawn(move || {
        while let Some(now) = now.upgrade() {
            if let Ok(now) = now.lock()
                && let Some((since, input)) = &*now
                && since.elapsed() > HANG
            {
                eprintln!("not done after {HANG:?}:\n{input}");
                std::process::abort();
            }
            drop(now);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
}

/// What this thread has had of a processor, however much else the machine does; time where the system
/// does not tell.
fn processor_time(start: Instant) -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|figures| figures.split(' ').next()?.parse().ok())
        .map_or_else(|| start.elapsed(), Duration::from_nanos)
}

thread_local! {
    /// What the last panic said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn keep(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("?");
    let place = panic.location().map(ToString::to_string);
    PANIC.set(format!("{}: {text}", place.unwrap_or_default()));
}

/// What is wrong with an input, if anything is.
fn fault(input: &Input, twice: bool) -> Result<properties::Outcome, String> {
    match catch_unwind(AssertUnwindSafe(|| properties::hold(input, twice))) {
        Ok(outcome) => outcome,
        Err(_) => Err(PANIC.take()),
    }
}

#[test]
fn nothing_panics_or_hangs() {
    let campaign: Option<u64> = std::env::var("PROPTEST_CASES")
        .ok()
        .map(|n| n.parse().expect("PROPTEST_CASES is a number"));
    let first: u64 = std::env::var("FUZZ_FIRST").map_or(0, |n| n.parse().expect("a number"));
    let cases = campaign.unwrap_or(SAMPLE);
    let seeds = Seeds::read();
    let now = Now::default();
    watch(&now);
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(keep));
    let (mut faults, mut faulty) = (BTreeMap::new(), 0_u64);
    let mut counts: BTreeMap<Kind, [u64; 4]> = BTreeMap::new();
    let (start, mut slowest) = (Instant::now(), (Duration::ZERO, 0));
    for number in first..first + cases {
        let input = seeds.input(number);
        *now.lock().unwrap() = Some((Instant::now(), input.to_string()));
        let began = processor_time(start);
        // Most of the time goes into reading what comes out: a campaign reads a fifth of it.
        let outcome = fault(&input, campaign.is_none() || number % 5 == 0);
        let took = processor_time(start) - began;
        *now.lock().unwrap() = None;
        slowest = slowest.max((took, number));
        let outcome = match outcome {
            Ok(_) if campaign.is_some() && took > SLOW => Err(format!("it took {took:?}")),
            outcome => outcome,
        };
        match outcome {
            Ok(outcome) => {
                let counts = counts.entry(input.kind()).or_default();
                let seen = [true, outcome.parsed, outcome.accepted, outcome.expanded];
                for (count, seen) in counts.iter_mut().zip(seen) {
                    *count += u64::from(seen);
                }
            }
            Err(what) => {
                faulty += 1;
                let kind = shrink::kind(&what);
                if faults.len() < 20 && !faults.contains_key(&kind) {
                    let least = shrink::least(&input, &what);
                    faults.insert(kind, format!("input {number}: {what}\n{least}"));
                }
            }
        }
        if campaign.is_some() && (number + 1) % 50_000 == 0 {
            println!(
                "{} inputs, {faulty} faults, {:?}",
                number + 1,
                start.elapsed()
            );
        }
    }
    std::panic::set_hook(loud);
    let mut table = String::new();
    for (kind, [inputs, parsed, accepted, expanded]) in &counts {
        let _ = writeln!(
            table,
            "{kind:?}: {inputs} inputs, {parsed} parsed, {accepted} accepted, {expanded} expanded"
        );
    }
    println!(
        "{table}{cases} inputs, {faulty} faults, {:?}, slowest {:?} (input {})",
        start.elapsed(),
        slowest.0,
        slowest.1
    );
    let shown: Vec<String> = faults.into_values().collect();
    assert!(shown.is_empty(), "{faulty} faults:\n{}", shown.join("\n\n"));
    // Else the inputs test less than they seem to.
    for (kind, [inputs, parsed, accepted, expanded]) in counts {
        assert!(expanded > 0, "{kind:?}: nothing of {inputs} was expanded");
        if matches!(kind, Kind::Edited | Kind::Grammar) {
            assert!(
                parsed * 50 > inputs,
                "{kind:?}: {parsed} of {inputs} parsed"
            );
            assert!(
                accepted * 50 > inputs,
                "{kind:?}: {accepted} of {inputs} accepted"
            );
        }
    }
}

/// Programs that once broke something, as small as they get.
const FOUND: [&str; 10] = [
    // A dim and a parameter of one raw name.
    "fn members<dim r#fn>(r#fn: f32) -> f32 { r#fn }",
    // A constant that is as large as they get, and more of it.
    "fn f<dim N>(s: f32[N]) -> f32[N] { let y[i in N, t in 9223372036854775807] = s[t / 2]; y }",
    // A coefficient without a magnitude.
    "fn f<dim N>() -> f32 where 9223372036854775807 / D * K == 1 {}",
    // Items that are not there, behind their `#[cfg]`.
    "#[cfg(a)] fn f<dim N>(x: f32) -> f32 {}",
    // A host value that is none.
    "fn f(#[host] y: S<B>) -> f32 {} struct S<dim L> { y: [f32; K] }",
    // A reduction that was none any more without the comma behind it.
    "agg a(x: f32) { state { n: f32 = b[i] x, } lift { n: x } merge(a, b) { a } finish { n } }",
    "agg a(x: f32) { state { n: f32 = 0.0 } lift { n: b[i] x, } merge(a, b) { a } finish { n } }",
    // An attribute that Rust does not read.
    "#[a inline] fn f<dim N>(x: f32) -> f32 {}",
    // A result that is no name.
    "fn f<dim N>(x: f32[N]) -> f32 { sum[n] x[n] }",
    // A raw identifier inside of another.
    "fn f<dim ..r#type>(x: f32[..r#type]) -> f32[..r#type] { x }",
];

#[test]
fn what_was_found_is_mended() {
    for text in FOUND {
        if let Err(what) = properties::hold(&Input::of(text), true) {
            panic!("{text}\n{what}");
        }
    }
}
