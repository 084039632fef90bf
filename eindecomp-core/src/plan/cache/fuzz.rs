//! No file makes the loader panic or hang, and none is taken for what it is not.
//!
//! Inputs are entries with edits of bytes and of JSON tokens: of the file as it is, and of its plan, its
//! subject and its key under a right hash. `cargo test` runs a sample; `PROPTEST_CASES=n` runs `n`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::lines::to_line;
use super::tests::subject;
use super::*;
use crate::graph::BoundGraph;
use crate::graph::testing::random_graph;
use crate::plan::samples::{Llama, ffn, records};
use crate::plan::verify::verify;
use crate::plan::{Cluster, Objective, Plan, PlanOptions, Residency, plan};
use crate::task;

/// In `cargo test`.
const SAMPLE: u32 = 1000;
/// Longer than any input takes on a machine that does something else too.
const SLOW: Duration = Duration::from_secs(5);

/// What is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The file.
    File,
    /// The plan's text; the hash is right.
    Plan,
    /// The subject's text; the hash is right.
    Subject,
    /// The key's text; the hash is right, where it is a key still.
    Key,
}

#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Cut(Index, Index),
    Insert(Index, Vec<u8>),
    /// A piece of the text, somewhere else once more.
    Copy(Index, Index, Index),
    /// A JSON token gives way to this text.
    Token(Index, String),
    /// A number, in quotes or not, gives way to another one.
    Number(Index, u32),
    /// A JSON token gives way to another one of the text.
    Swap(Index, Index),
    /// From one bracket to another all is gone.
    Tree(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let odd = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "3",
        "-1",
        "1.5",
        "1e400",
        "255",
        "32768",
        "32769",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "\"0\"",
        "\"1\"",
        "\"-1\"",
        "\"340282366920938463463374607431768211455\"",
        "\"340282366920938463463374607431768211456\"",
        "\"\"",
        "null",
        "true",
        "[]",
        "{}",
        "[[]]",
        "[0,0]",
        "\"placed/2\"",
        "\"communication/1\"",
        "\"time/1\"",
        "\"auto\"",
        "\"sharded\"",
        "\"as_needed\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        ",",
        ":",
        "",
        "/",
    ]);
    prop_oneof![
        2 => (at(), 0u8..8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        1 => (at(), at()).prop_map(|(from, to)| Edit::Cut(from, to)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, b)| Edit::Insert(at, b)),
        1 => (at(), at(), at()).prop_map(|(from, to, at)| Edit::Copy(from, to, at)),
        6 => (at(), odd).prop_map(|(at, text)| Edit::Token(at, text.into())),
        12 => (at(), 0u32..20).prop_map(|(at, n)| Edit::Number(at, n)),
        6 => (at(), at()).prop_map(|(at, from)| Edit::Swap(at, from)),
        1 => at().prop_map(Edit::Tree),
    ]
}

/// Where the tokens of a JSON text are: strings, words and numbers, and each other sign.
fn tokens(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let from = at;
        let word = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
        at += match text[at] {
            b'"' => {
                let mut end = 1;
                while at + end < text.len() && text[at + end] != b'"' {
                    end += if text[at + end] == b'\\' { 2 } else { 1 };
                }
                (end + 1).min(text.len() - at)
            }
            b if word(&b) => text[at..].iter().take_while(|b| word(b)).count(),
            _ => 1,
        };
        if !text[from].is_ascii_whitespace() {
            all.push(from..at);
        }
    }
    all
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    let range = |text: &[u8], a: &Index, b: &Index| {
        let (a, b) = (a.index(text.len() + 1), b.index(text.len() + 1));
        a.min(b)..a.max(b)
    };
    if text.is_empty() {
        return;
    }
    match edit {
        Edit::Flip(at, bit) => {
            let at = at.index(text.len());
            text[at] ^= 1 << bit;
        }
        Edit::Cut(from, to) => drop(text.drain(range(text, from, to))),
        Edit::Insert(at, bytes) => {
            let at = at.index(text.len() + 1);
            text.splice(at..at, bytes.iter().copied());
        }
        Edit::Copy(from, to, at) => {
            let piece = text[range(text, from, to)].to_vec();
            let at = at.index(text.len() + 1);
            text.splice(at..at, piece);
        }
        Edit::Token(at, with) => {
            let all = tokens(text);
            if !all.is_empty() {
                text.splice(at.get(&all).clone(), with.bytes());
            }
        }
        Edit::Number(at, with) => {
            let mut all = tokens(text);
            all.retain(|t| text[t.clone()].iter().all(|b| b"\"0123456789".contains(b)));
            if !all.is_empty() {
                let at = at.get(&all).clone();
                let quote = if text[at.start] == b'"' { "\"" } else { "" };
                text.splice(at, format!("{quote}{with}{quote}").bytes());
            }
        }
        Edit::Swap(at, from) => {
            let all = tokens(text);
            if !all.is_empty() {
                let piece = text[from.get(&all).clone()].to_vec();
                text.splice(at.get(&all).clone(), piece);
            }
        }
        Edit::Tree(at) => {
            let all = tokens(text);
            let opens = |t: &&std::ops::Range<usize>| b"[{".contains(&text[t.start]);
            let open: Vec<_> = all.iter().filter(opens).collect();
            if open.is_empty() {
                return;
            }
            let (start, mut depth) = (at.get(&open).start, 0);
            let end = all.iter().skip_while(|t| t.start < start).find(|t| {
                depth += match text[t.start] {
                    b'[' | b'{' => 1,
                    b']' | b'}' => -1,
                    _ => 0,
                };
                depth == 0
            });
            if let Some(end) = end.map(|t| t.end) {
                text.drain(start..end);
            }
        }
    }
}

/// A good entry, and what it is an entry of.
struct Seed {
    graph: BoundGraph,
    cluster: Cluster,
    key: WrittenKey,
    plan: Plan,
}

fn seeds() -> Vec<Seed> {
    let deep = Llama {
        layers: 2,
        ..Llama::B7
    };
    let two = Cluster::cpus(2).with_servers(2);
    let of = |graph: BoundGraph, cluster: Cluster, objective, residency| {
        let options = PlanOptions {
            objective,
            residency,
            ..PlanOptions::default()
        };
        let key = Key::new(&graph, &cluster, &options).written();
        let plan = plan(&graph, &cluster, &options).unwrap();
        Seed {
            graph,
            cluster,
            key,
            plan,
        }
    };
    use {Objective::*, Residency::*};
    let mut all = vec![
        of(ffn(4, 6, 8), Cluster::cpus(4), Placed, AsNeeded),
        of(ffn(4, 6, 8), two.clone(), Placed, Sharded),
        of(ffn(4, 6, 8), two, Time, Auto),
        of(records(4, 6, 8), Cluster::cpus(3), Communication, AsNeeded),
        of(deep.forward(), Cluster::cpus(8), Placed, AsNeeded),
    ];
    for seed in 0..8 {
        let graph = random_graph(seed, 4).bound();
        all.push(of(graph, Cluster::cpus(1 + seed as u32), Placed, Auto));
    }
    all
}

/// What became of an input: `Ok` of a plan that keeps every rule.
fn loaded(seed: &Seed, file: &[u8]) -> Result<Result<Plan, EntryError>, String> {
    let start = Instant::now();
    let found = decode(file, &seed.key, &seed.graph, &seed.cluster);
    let also = (read(file), head(file));
    let took = start.elapsed();
    if took > SLOW {
        return Err(format!("it took {took:?}"));
    }
    if let Ok((_, key)) = &also.1
        && *key != *seed.key
        && differences(&seed.key, key).is_empty()
    {
        return Err("another key that differs in nothing".into());
    }
    if let Err(error) = &found
        && error.to_string().is_empty()
    {
        return Err("an error without words".into());
    }
    let (plan, tasks) = match found {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    if also.0.is_err() {
        return Err("decoded, but not read".into());
    }
    verify(&seed.graph, &plan, &seed.cluster).map_err(|e| e.to_string())?;
    task::verify::verify(&seed.graph, &plan, &tasks).map_err(|e| e.to_string())?;
    let again = open(encode(&seed.key, &subject(), &plan).as_bytes(), &seed.key);
    match again {
        Ok(again) if again == plan => Ok(Ok(plan)),
        other => Err(format!("written and read: {other:?}")),
    }
}

#[test]
fn no_file_breaks_the_loader() {
    let seeds = seeds();
    let counts = RefCell::new(BTreeMap::<(Part, &str), u64>::new());
    let parts = prop::sample::select(vec![
        Part::File,
        Part::Plan,
        Part::Plan,
        Part::Subject,
        Part::Key,
    ]);
    let inputs = (0..seeds.len(), parts, prop::collection::vec(edit(), 1..4));
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = SAMPLE;
    }
    let start = Instant::now();
    let source = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, source).run(&inputs, |(seed, part, edits)| {
        let seed = &seeds[seed];
        let good = encode(&seed.key, &subject(), &seed.plan);
        let edited = |text: &str| {
            let mut text = text.as_bytes().to_vec();
            edits.iter().for_each(|e| apply(&mut text, e));
            text
        };
        let (named, plan) = (to_line(&subject()), table::write(&seed.plan));
        let file = match part {
            Part::File => edited(&good),
            Part::Plan => entry::sealed(&seed.key, named.as_bytes(), &edited(&plan)),
            Part::Subject => entry::sealed(&seed.key, &edited(&named), plan.as_bytes()),
            Part::Key => match serde_json::from_slice::<Key>(&edited(seed.key.text())) {
                Ok(key) => encode(&key.written(), &subject(), &seed.plan).into_bytes(),
                Err(_) => return Ok(()),
            },
        };
        let found = loaded(seed, &file).map_err(TestCaseError::fail)?;
        let outcome = match &found {
            Ok(_) => "good",
            Err(EntryError::Text | EntryError::LineEnds) => "text",
            Err(EntryError::Format(_)) => "format",
            Err(EntryError::Hash) => "hash",
            Err(EntryError::Json(_)) => "json",
            Err(EntryError::Key(_)) => "key",
            Err(EntryError::Plan(_)) => "plan",
            Err(EntryError::Stopped) => "stopped",
            Err(EntryError::Rule(_)) => "rule",
        };
        *counts.borrow_mut().entry((part, outcome)).or_default() += 1;
        // a plan or subject under a right hash may be another good one; nothing else is taken for an entry
        let hashed = matches!(part, Part::Plan | Part::Subject);
        prop_assert!(found.is_err() || hashed || file == good.as_bytes());
        Ok(())
    });
    let counts = counts.into_inner();
    let all: u64 = counts.values().sum();
    println!("{all} inputs in {:?}: {counts:?}", start.elapsed());
    result.unwrap_or_else(|e| panic!("{e}"));
    // else the inputs test less than they seem to
    for seen in [
        (Part::File, "text"),
        (Part::File, "hash"),
        (Part::Plan, "json"),
        (Part::Plan, "rule"),
        (Part::Plan, "good"),
        (Part::Subject, "json"),
        (Part::Subject, "good"),
        (Part::Key, "key"),
    ] {
        assert!(
            counts.get(&seen).is_some_and(|&n| n > 0),
            "{seen:?}: none of {counts:?}"
        );
    }
}
