use std::cell::Cell;
use std::ops::Deref as _;
use std::sync::Arc;

use super::*;
use crate::ein::Agg;
use crate::graph::{BoundGraph, Pin};
use crate::plan::samples::{Llama, Sample, corpus, ffn, matmul, transformer};
use crate::plan::search::{Progress, Status};
use crate::plan::{
    Algorithm, Cluster, Constraints, Hierarchy, Objective, Plan, PlanOptions, Residency, plan,
    plan_watched, verify,
};
use crate::task::lower::lower;
use std::num::NonZeroU32;

fn planned(graph: &BoundGraph, devices: u32) -> (WrittenKey, Plan, Cluster) {
    let (cluster, options) = (Cluster::cpus(devices), PlanOptions::default());
    let key = Key::new(graph, &cluster, &options).written();
    let plan = plan(graph, &cluster, &options).unwrap();
    (key, plan, cluster)
}

pub(super) fn subject() -> Subject {
    Subject {
        block: "model::step".into(),
        dims: [("B".into(), 4), ("S".into(), 6)].into(),
        cluster: "cpus:4".into(),
    }
}

#[test]
fn entries_read_back() {
    for devices in [1, 3, 4] {
        let graph = ffn(4, 6, 8);
        let (key, plan, cluster) = planned(&graph, devices);
        let text = encode(&key, &subject(), &plan);
        let (read, _) = decode(text.as_bytes(), &key, &graph, &cluster).unwrap();
        assert_eq!(read, plan);
        assert_eq!(text, encode(&key, &subject(), &read));
        assert!(text.lines().all(|l| l.len() < 400), "{text}");
    }
}

/// If this fails, plans or entries have changed: raise [`PLANNER`] or [`FORMAT`], say so in the
/// changelog, and accept the new snapshot.
#[test]
fn plans_change_with_the_version_only() {
    let (key, plan, _) = planned(&ffn(4, 6, 8), 4);
    insta::assert_snapshot!(encode(&key, &subject(), &plan));
}

/// As above: of each plan what moves, what is proved and the start of its hash; by every objective on three devices, by the
/// default one on four, there with seven eighths of the memory that its plan uses too, where that does not take long.
#[test]
fn plans_of_the_corpus_change_with_the_version_only() {
    let mut lines = vec![PLANNER.to_string()];
    for (name, graph) in corpus() {
        let mut told = |devices: u32, capacity: Option<u64>, objective: Objective| {
            let mut cluster = Cluster::cpus(devices);
            let mut what = format!("{name}, {devices}, {}", objective.model());
            if let Some(capacity) = capacity {
                cluster = cluster.with_capacity(capacity);
                what += &format!(", {capacity} B");
            }
            let options = PlanOptions {
                objective,
                ..PlanOptions::default()
            };
            let found = plan(&graph, &cluster, &options);
            lines.push(match &found {
                Ok(plan) => {
                    let hash = super::key::sha256([&serde_json::to_vec(plan).unwrap()[..]]);
                    let (all, start) = (&plan.certificate, &hash[..16]);
                    let (moved, bound, cost) = (plan.moved_bytes, all.bound, all.cost);
                    format!("{what}: {moved} B, {bound} of {cost}, {start}")
                }
                Err(error) => format!("{what}: {error}"),
            });
            found
        };
        for objective in Objective::ALL {
            told(3, None, objective).unwrap();
        }
        let free = told(4, None, Objective::Placed).unwrap();
        if graph.nodes().len() < 10 {
            let arenas = lower(&graph, &free).unwrap().arenas;
            let most = arenas.into_iter().max().unwrap();
            let _ = told(4, Some(most * 7 / 8), Objective::Placed);
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

/// Says no after so many questions.
struct After(Cell<u32>);

impl Progress for After {
    fn keep_going(&self, _: &Status) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

#[test]
fn a_plan_that_was_stopped_says_so_and_is_no_entry() {
    let graph = transformer(1, [2, 16, 4, 8, 64]);
    for objective in Objective::ALL {
        for capacity in [1 << 30, 120 << 10] {
            let cluster = Cluster::cpus(4).with_capacity(capacity);
            let options = PlanOptions {
                objective,
                ..PlanOptions::default()
            };
            let key = Key::new(&graph, &cluster, &options).written();
            for questions in [0, 1, 10] {
                let asked = After(Cell::new(questions));
                let Ok(plan) = plan_watched(&graph, &cluster, &options, &asked) else {
                    assert!(capacity < 1 << 30, "nothing else is in the way");
                    continue;
                };
                assert!(plan.certificate.stopped);
                let told = plan.certificate.to_string();
                assert!(told.ends_with("; stopped at the limit"), "{told}");
                assert!(plan.certificate.bound <= plan.certificate.cost);
                verify::verify(&graph, &plan, &cluster).unwrap();
                let entry = decode(
                    encode(&key, &subject(), &plan).as_bytes(),
                    &key,
                    &graph,
                    &cluster,
                );
                assert!(matches!(entry, Err(EntryError::Stopped)));
            }
        }
    }
}

#[test]
fn random_graphs_read_back() {
    for seed in 0..20 {
        let graph = crate::graph::testing::random_graph(seed, 3).bound();
        let (key, plan, cluster) = planned(&graph, 1 + seed as u32 % 8);
        let text = encode(&key, &subject(), &plan);
        assert_eq!(
            decode(text.as_bytes(), &key, &graph, &cluster).unwrap().0,
            plan
        );
    }
}

#[test]
fn every_part_of_the_key_counts() {
    let (graph, options) = (ffn(4, 6, 8), PlanOptions::default());
    let key = |g: &BoundGraph, c: Cluster, o: PlanOptions| {
        let key = Key::new(g, &c, &o).written();
        key.hash().to_string()
    };
    let asked = |min_tile, oversubscribe| PlanOptions {
        constraints: Constraints {
            min_tile: NonZeroU32::new(min_tile).unwrap(),
            oversubscribe: NonZeroU32::new(oversubscribe).unwrap(),
        },
        ..options
    };
    let base = key(&graph, Cluster::cpus(2), options);
    assert_eq!(base.len(), 64);
    assert_eq!(base, key(&ffn(4, 6, 8), Cluster::cpus(2), options));
    let others = [
        key(&ffn(5, 6, 8), Cluster::cpus(2), options),
        key(&graph, Cluster::cpus(3), options),
        key(&graph, Cluster::cpus(2).with_servers(2), options),
        key(&graph, Cluster::cpus(1).with_servers(2), options),
        key(&graph, Cluster::cpus(2).with_capacity(1 << 30), options),
        key(
            &graph,
            Cluster::cpus(2),
            PlanOptions {
                residency: Residency::Sharded,
                ..options
            },
        ),
        key(
            &graph,
            Cluster::cpus(2),
            PlanOptions {
                objective: Objective::Communication,
                ..options
            },
        ),
        key(
            &graph,
            Cluster::cpus(2),
            PlanOptions {
                algorithm: Algorithm::Linearized,
                ..options
            },
        ),
        key(&graph, Cluster::cpus(2), asked(2, 1)),
        key(&graph, Cluster::cpus(2), asked(1, 2)),
    ];
    for (i, other) in others.iter().enumerate() {
        assert_ne!(*other, base);
        assert!(!others[..i].contains(other));
    }
    let pinned = |pin| {
        let mut g = Sample::default();
        let x = g.data("x", &[8, 8]);
        let y = g.pinned("y", "ij->i", &[x], Agg::SUM, pin);
        Key::new(&g.finish(y), &Cluster::cpus(2), &options)
    };
    assert_eq!(pinned(vec![Pin::Split("j".into(), 2)]).pins, ["%1 #1 in 2"]);
    assert_eq!(pinned(vec![Pin::Whole]).pins, ["%1 whole"]);
}

/// The machine is part of the key where the model reads it, in two digits.
#[test]
fn the_text_of_a_key_is_its_json() {
    let mut key = planned(&ffn(4, 6, 8), 4).0.deref().clone();
    let quoted = r#"  %2 = extern("top \"k\"", 1, [#1=8], []) of %0[#0, #1] -> i64[#0=4]"#;
    let control = "  \u{1} \u{7f} \u{20ac}";
    for graph in ["", "eingraph {\n}\n", quoted, control] {
        let lines: String = graph.lines().map(|line| format!("{line}\n")).collect();
        for graph in [lines.clone(), key.graph.replace("}\n", &lines)] {
            for pins in [vec![], vec!["%2 \"[]\" in 4".to_string()]] {
                key.graph = graph.as_str().into();
                key.pins = pins;
                let text = key.clone().written().text().to_string();
                assert_eq!(text, lines::to_string(&key));
                assert_eq!(serde_json::from_str::<Key>(&text).unwrap(), key);
            }
        }
    }
}

#[test]
fn keys_hold_what_the_model_reads_of_the_cluster() {
    let graph = ffn(4, 6, 8);
    let key = |objective, cluster: &Cluster| {
        let options = PlanOptions {
            objective,
            ..PlanOptions::default()
        };
        Key::new(&graph, cluster, &options)
    };
    let base = Cluster::dgx_a100().with_servers(2);
    let changed = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = base.clone();
        change(&mut cluster);
        let all = [Objective::Communication, Objective::Placed, Objective::Time];
        all.map(|o| key(o, &cluster).written().hash() != key(o, &base).written().hash())
    };
    assert_eq!(changed(&|c| c.name = "mine".into()), [false; 3]);
    assert_eq!(changed(&|c| c.servers = 3), [true; 3]);
    assert_eq!(changed(&|c| c.server.device.capacity -= 1), [true; 3]);
    // a byte between servers counts 8
    assert_eq!(
        changed(&|c| c.network.bandwidth = 300_000_000_000),
        [true; 3]
    );
    let time_only = [false, false, true];
    assert_eq!(
        changed(&|c| c.server.device.rates.bf16.matmul *= 2),
        time_only
    );
    assert_eq!(changed(&|c| c.server.device.overhead += 1_000), time_only);
    assert_eq!(changed(&|c| c.server.cores = Some(8)), time_only);
    // less than half a second digit
    assert_eq!(
        changed(&|c| c.server.device.rates.bf16.matmul += 1_000_000_000_000),
        [false; 3]
    );
    // one server has no network
    let one = |bandwidth| {
        let mut one = Cluster::dgx_a100();
        one.network.bandwidth = bandwidth;
        key(Objective::Time, &one)
    };
    assert_eq!(one(1), one(2));
    let machine = serde_json::to_string_pretty(&one(1).machine).unwrap();
    insta::assert_snapshot!(machine);
}

#[test]
fn bad_entries_are_refused() {
    let graph = matmul(8, 8, 8);
    let (key, plan, cluster) = planned(&graph, 2);
    let text = encode(&key, &subject(), &plan);
    let read = |text: &[u8]| decode(text, &key, &graph, &cluster).unwrap_err();
    for junk in [
        &b""[..],
        b"{}",
        b"\xff\xfe",
        b"null",
        "[".repeat(1 << 20).as_bytes(),
        (text.clone() + "\n").as_bytes(),
        text.replacen("\"format\": 3", "\"format\": 03", 1)
            .as_bytes(),
        text.replacen("\"format\": 3", "\"format\": 99999999999", 1)
            .as_bytes(),
        text.replacen("  \"plan\"", "\"plan\"", 1).as_bytes(),
        text.replacen("\"sha256\"", "\"sha256\" ", 1).as_bytes(),
    ] {
        assert!(matches!(read(junk), EntryError::Text));
    }
    for crlf in [text.replace('\n', "\r\n"), "{\r\n".into()] {
        assert!(matches!(read(crlf.as_bytes()), EntryError::LineEnds));
    }
    let newer = text.replacen("\"format\": 3", "\"format\": 4", 1);
    assert!(matches!(read(newer.as_bytes()), EntryError::Format(4)));
    for (from, to) in [
        ("\"moved_bytes\": \"", "\"moved_bytes\": \"1"),
        ("\"join\": null", "\"jomn\": null"),
        ("\"capacity\": 6", "\"capacity\": 7"),
        ("model::step", "model::stop"),
    ] {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{from}");
        assert!(matches!(read(edited.as_bytes()), EntryError::Hash), "{to}");
    }
    // a key in other words
    let spaced = text.replacen("\"pins\": []", "\"pins\": [ ]", 1);
    assert_ne!(spaced, text);
    assert!(matches!(read(spaced.as_bytes()), EntryError::Text));

    // hashed as it is, but wrong
    let refused = |change: &dyn Fn(&mut Key, &mut Plan)| {
        let (mut key, mut plan) = (Key::clone(&key), plan.clone());
        change(&mut key, &mut plan);
        read(encode(&key.written(), &subject(), &plan).as_bytes())
    };
    let error = refused(&|key, _| key.hierarchy = Hierarchy::flat(3));
    assert!(matches!(error, EntryError::Key(part) if part == "hierarchy per_server"));
    let error = refused(&|_, plan| plan.moved_bytes += 1);
    assert!(matches!(
        error,
        EntryError::Rule(verify::InvalidPlan::MovedBytes { .. })
    ));
    let error = refused(&|_, plan| {
        let join = plan.nodes[2].join.as_mut().unwrap();
        Arc::make_mut(join).devices[0] = 9;
    });
    assert!(matches!(
        error,
        EntryError::Rule(verify::InvalidPlan::Device { .. })
    ));
    let error = refused(&|_, plan| plan.certificate.bound = plan.certificate.cost + 1);
    assert!(matches!(
        error,
        EntryError::Rule(verify::InvalidPlan::Bound { .. })
    ));
    let error = refused(&|_, plan| plan.certificate.checked = Some(plan.certificate.cost + 1));
    assert!(matches!(
        error,
        EntryError::Rule(verify::InvalidPlan::Bound { .. })
    ));
    let error = refused(&|_, plan| plan.model = "guess/1".into());
    assert!(matches!(error, EntryError::Plan("cost model")));
    let error = refused(&|_, plan| plan.residency = Residency::Sharded);
    assert!(matches!(error, EntryError::Plan("residency")));
}

#[test]
fn subjects_are_told_as_text() {
    let mut odd = subject();
    assert_eq!(odd.to_string(), "model::step B=4 S=6 on cpus:4");
    odd.block = "\u{1b}[2Jx\n".into();
    assert_eq!(odd.to_string(), "\\u{1b}[2Jx\\n B=4 S=6 on cpus:4");
    let graph = matmul(8, 8, 8);
    let on = |cluster| Subject::new(None, graph.graph(), [("N", 8)], &cluster).to_string();
    assert_eq!(on(Cluster::cpus(2)), "(x, y) -> (out) N=8 on cpus:2");
    let two = Cluster::dgx_h100().with_servers(2);
    assert_eq!(on(two), "(x, y) -> (out) N=8 on 2xdgx_h100");
}

/// The façade's tests see of a sample that it is planned again.
#[test]
fn every_flip_and_every_truncation_is_refused() {
    let graph = ffn(4, 6, 8);
    let (key, plan, cluster) = planned(&graph, 4);
    let text = encode(&key, &subject(), &plan).into_bytes();
    let refused = |text: &[u8]| decode(text, &key, &graph, &cluster).is_err();
    for end in 0..text.len() {
        assert!(refused(&text[..end]), "{end} bytes");
    }
    let mut flipped = text.clone();
    for bit in 0..8 * text.len() {
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(refused(&flipped), "bit {bit}");
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(!refused(&flipped));
}

/// Whoever can write a file can hash it.
#[test]
fn sealed_texts_are_untrusted_too() {
    let graph = matmul(8, 8, 8);
    let (key, plan, _) = planned(&graph, 2);
    let (good, named) = (
        table::write(&plan),
        r#"{"block":"f","dims":{},"cluster":"cpus:2"}"#,
    );
    let refused = |text: &str| match open(
        &entry::sealed(&key, named.as_bytes(), text.as_bytes()),
        &key,
    ) {
        Err(EntryError::Json(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let edited = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        refused(&good.replacen(from, to, 1))
    };
    let deep = "[".repeat(1 << 20);
    assert!(refused(&deep).contains("invalid type"));
    let row = good.lines().skip_while(|l| !l.contains("\"nodes\"")).nth(1);
    let row = row.unwrap().trim();
    assert!(edited(row, &deep).contains("invalid type"));
    assert!(edited(row, "[0, 7]").contains("there is no kind 7"));
    assert!(edited("\"owner\": 0", "\"owner\": 77").contains("there is no layout 77"));
    assert!(edited("\"join\": null", "\"join\": -1").contains("invalid value"));
    assert!(edited("\"residency\": ", "\"residence\": ").contains("unknown field"));
    assert!(refused("{}").contains("missing field"));
    for subject in [
        "",
        "{}",
        "null",
        &deep,
        r#"{"block": "f", "dims": {"N": "4"}, "cluster": ""}"#,
    ] {
        let entry = entry::sealed(&key, subject.as_bytes(), good.as_bytes());
        let found = open(&entry, &key);
        assert!(matches!(found, Err(EntryError::Json(_))), "{found:?}");
    }
    // a layout of so many numbers in each of so many nodes
    let (devices, nodes) = (vec!["0"; 1 << 16].join(","), vec!["0"; 1 << 16].join(","));
    let large = good.replacen("\"devices\": [", &format!("\"devices\": [{devices},"), 1);
    let large = large.replacen(row, &format!("[{nodes}]"), 1);
    assert!(refused(&large).contains("more than 33554432 numbers"));
}

/// What is written once for all nodes alike makes the entry of a deep model small.
#[test]
fn entries_of_deep_models_are_small() {
    let size = |layers| {
        let graph = Llama {
            layers,
            ..Llama::B7
        }
        .forward();
        let (key, plan, cluster) = planned(&graph, 8);
        let text = encode(&key, &subject(), &plan);
        let read = open(text.as_bytes(), &key).unwrap();
        assert_eq!(read, plan);
        verify::rules(&graph, &read, &cluster).unwrap();
        text.len() - key.text().len()
    };
    let (few, more) = (size(2), size(4));
    assert!(more < few + 1000, "{few} {more}");
}
