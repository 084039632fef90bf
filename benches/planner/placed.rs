//! `placed`: time, bytes and both certificates.

use std::time::Instant;

use eindecomp_core::plan::{Cluster, PlanOptions, plan};

use crate::llama::llama_7b;

/// LLaMA-7B forward, by numbers of layers, sequences and devices.
const CASES: [(usize, i64, u32); 14] = [
    (32, 1, 2),
    (32, 1, 6),
    (32, 1, 7),
    (32, 1, 8),
    (32, 1, 12),
    (32, 1, 16),
    (32, 1, 24),
    (32, 1, 64),
    (32, 1, 96),
    (100, 1, 64),
    (32, 8, 8),
    (32, 8, 16),
    (32, 8, 64),
    (32, 1, 1024),
];

/// Prints one line per case with at most `devices` devices.
pub fn run(devices: u32) {
    for (layers, batch, p) in CASES.into_iter().filter(|c| c.2 <= devices) {
        let graph = llama_7b(layers, batch, 1024);
        let mut best = f64::INFINITY;
        let mut found = None;
        let runs = if p > 64 { 1 } else { 3 };
        for _ in 0..runs {
            let start = Instant::now();
            let plan = plan(&graph, &Cluster::cpus(p), &PlanOptions::default());
            best = best.min(start.elapsed().as_secs_f64());
            found = Some(plan.expect("a plan"));
        }
        let Some(plan) = found else { continue };
        println!(
            "placed LLaMA-7B {layers} layers, b = {batch}, p = {p:4}: {best:7.3} s  {:.3} GB  {}",
            plan.moved_bytes as f64 / 1e9,
            plan.certificate
        );
    }
}
