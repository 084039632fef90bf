//! Labels in affine, periodic and data-dependent accesses, split along every label: the tiles of
//! an operand are boxes with halos, and what is planned is what moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::run::{check, pinned, small_inputs};
use eindecomp_core::ein::access::splittable;
use eindecomp_core::graph::{BoundGraph, EinGraph, Pin};
use eindecomp_core::plan::planner::{PlanError, PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Explain, Residency};
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::{MemoryMode, Workers};

const DEVICES: [u32; 5] = [1, 2, 3, 4, 8];
const MODES: [MemoryMode; 3] = MemoryMode::ALL;

fn bound(source: &str, dims: &[(&str, i64)]) -> BoundGraph {
    let graph = EinGraph::from_text(source, "f", &Default::default())
        .unwrap_or_else(|e| panic!("{source}: {e}"));
    let dims: BTreeMap<Arc<str>, i64> = dims.iter().map(|(n, v)| (Arc::from(*n), *v)).collect();
    graph
        .bind(&dims)
        .unwrap_or_else(|e| panic!("{source}: {e:?}"))
}

/// As the planner likes it, split along every label of every statement, and at random: on every
/// number of devices and in both memory modes.
fn every_split(source: &str, dims: &[(&str, i64)]) {
    let graph = Arc::new(bound(source, dims));
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let inputs = small_inputs(&graph, 3);
    let options = PlanOptions {
        residency: Residency::Sharded,
        ..PlanOptions::default()
    };
    let mut forced = 0;
    for devices in DEVICES {
        let cluster = Cluster::cpus(devices);
        let best = plan(&graph, &cluster, &options).expect("a plan");
        let random = random_plan(&graph, devices, u64::from(devices));
        for (plan, what) in [(best, "best"), (random, "random")] {
            for mode in MODES {
                let what = format!("{what} on {devices}, {mode:?}");
                check(&graph, &inputs, &plan, mode, &workers, &what);
            }
        }
        for (id, node) in graph.ids() {
            let Some(e) = node.einsum() else { continue };
            let labels = e
                .labels
                .iter()
                .zip(graph.label_extents(id))
                .zip(splittable(e));
            for ((label, &extent), may) in labels {
                let parts = devices.min(extent as u32);
                if parts < 2 {
                    continue;
                }
                let pin = Pin::Split(label.name.clone(), parts);
                let graph = Arc::new(pinned(&graph, id.at(), &[pin]));
                let what = format!("{}, {} in {parts} on {devices}", node.name, label.name);
                match plan(&graph, &cluster, &options) {
                    Ok(plan) => {
                        assert!(may, "{what}");
                        for mode in MODES {
                            check(&graph, &inputs, &plan, mode, &workers, &what);
                        }
                        forced += 1;
                    }
                    Err(PlanError::Pins { .. }) => assert!(!may, "{what} must be possible"),
                    Err(e) => panic!("{what}: {e}"),
                }
            }
        }
    }
    assert!(forced > 3, "{forced} forced splits");
}

macro_rules! programs {
    ($($name:ident, $dims:expr, $source:expr;)*) => {
        $(#[test]
        fn $name() {
            every_split($source, &$dims);
        })*
    };
}

programs! {
    conv1d, [("N", 2), ("C", 3), ("O", 2), ("X", 9)],
    "fn f<dim N, dim C, dim O, dim X>(x: f32[N, C, X], w: f32[O, C, 3]) -> f32[N, O, X] {
        let y[n, o, i in X] = sum[c, u] (x[n, c, i + u - 1] else 0.0) * w[o, c, u];
        y
    }";
    conv1d_valid_dilated, [("C", 3), ("O", 2), ("X", 13)],
    "fn f<dim C, dim O, dim X>(x: f32[C, X], w: f32[O, C, 3]) -> f32[O, X - 4] where X >= 4 {
        let y[o, i in X - 4] = sum[c, u] x[c, i + 2 * u] * w[o, c, u];
        y
    }";
    conv2d_stride_2_padded, [("N", 2), ("C", 2), ("O", 3), ("Y", 7), ("X", 10)],
    "fn f<dim N, dim C, dim O, dim Y, dim X>(x: f32[N, C, Y, X], w: f32[O, C, 3, 3])
        -> f32[N, O, (Y - 1) / 2 + 1, (X - 1) / 2 + 1] where Y >= 1, X >= 1 {
        let y[n, o, i in (Y - 1) / 2 + 1, j in (X - 1) / 2 + 1] =
            sum[c, u, v] (x[n, c, 2 * i + u - 1, 2 * j + v - 1] else 0.0) * w[o, c, u, v];
        y
    }";
    pooling, [("C", 2), ("Y", 9), ("X", 8)],
    "fn f<dim C, dim Y, dim X>(x: f32[C, Y, X]) -> (f32[C, Y / 2, X / 2], f32[C, Y, X]) {
        let m[c, i in Y / 2, j in X / 2] = max[u in 2, v in 2] x[c, 2 * i + u, 2 * j + v];
        let a[c, i in Y, j in X] = sum[u in 3, v in 3] (x[c, i + u - 1, j + v - 1] else 0.0);
        (m, a)
    }";
    causal_shift, [("B", 2), ("T", 9), ("D", 3)],
    "fn f<dim B, dim T, dim D>(x: f32[B, T, D]) -> f32[B, T, D] {
        let y[b, t, d] = x[b, t, d] - (x[b, t - 1, d] else 0.0);
        let z[b, t in T, d] = if t > 1 { y[b, t - 2, d] } else { 0.0 };
        let a[b, t, d] = y[b, t, d] * z[b, t, d];
        a
    }";
    heat, [("Y", 9), ("X", 8)],
    "fn step<dim Y, dim X>(u: f32[Y, X]) -> f32[Y, X] {
        let v[i, j] = u[i, j] + 2.0 * ((u[i - 1, j] else 0.0) + (u[i + 1, j] else 0.0)
            + (u[i, j - 1] else 0.0) + (u[i, j + 1] else 0.0) - 4.0 * u[i, j]);
        v
    }
    fn f<dim Y, dim X>(u: f32[Y, X]) -> f32[Y, X] {
        let mut u = u;
        for i in 0..3 { u = step(u); }
        u
    }";
    periodic, [("Y", 9), ("X", 5)],
    "fn f<dim Y, dim X>(u: f32[Y, X]) -> f32[Y, X] where Y >= 1, X >= 1 {
        let a[i, j] = u[(i - 1) % Y, j] + u[(i + 1) % Y, j] - 2.0 * u[i, j];
        let b[i, j] = a[i, (j + 2) % X] - a[i, j];
        b
    }";
    quotients, [("X", 7)],
    "fn f<dim X>(x: f32[X]) -> (f32[2 * X], f32[X, X]) where X >= 1 {
        let up[i in 2 * X] = x[i / 2];
        let c[i in X, j in X] = up[min(i + j, 2 * X - 1)] * up[clamp(i - j, 0, X - 1)];
        (up, c)
    }";
    merged_axes, [("B", 2), ("S", 5)],
    "fn f<dim B, dim S>(q: f32[B, S, 12], k: f32[B, S, 12]) -> (f32[B, 3, S, S], f32[B, S, 12]) {
        let l[b, h in 3, s, t] = sum[e in 4] q[b, s, (h, e)] * k[b, t, (h, e)];
        let y[b, s, (i in 6, c in 2)] = q[b, s, 2 * i + c] * k[b, s, 2 * i + 1 - c];
        (l, y)
    }";
    reversed_and_diagonal, [("X", 6)],
    "fn f<dim X>(x: f32[X, 2 * X]) -> (f32[X], f32[X, X]) where X >= 1 {
        let r[i in X] = sum[j in X] x[X - 1 - i, 2 * X - 1 - 2 * j];
        let d[i, j in X] = x[i, i + j];
        (r, d)
    }";
    indices_of_data, [("S", 7), ("P", 12), ("D", 3)],
    "fn f<dim S, dim P, dim D>(x: f32[P, D], at: i64, ids: i64[S]) -> (f32[S, D], f32[S, D])
        where S + 2 <= P {
        let y[s in S, d] = (x[at + s, d] else -1.0);
        let z[s, d] = x[ids[s] + s, d] * x[s + 2, d];
        (y, z)
    }";
    parts_of_an_axis, [("S", 9), ("F", 6)],
    "fn f<dim S, dim F>(x: f32[S], w: f32[2 * F]) -> (f32[S - 1], f32[F], f32[S - 2]) where S >= 2 {
        let y[s in S - 1] = x[s + 1] - x[0 + s];
        let z[f in F] = w[0 + f] * w[F + f];
        let d[s in S - 2] = x[0 + s] - 2.0 * x[s + 1] + x[s + 2];
        (y, z, d)
    }";
    selections, [("T", 5), ("X", 6)],
    "fn f<dim T, dim X>(x: f32[T, X]) -> i64[T] {
        let a[t] = argmax[i] (x[t, i] + (x[t - 1, i] else 0.0));
        a
    }";
}

/// One element comes from the neighbour on the left, into a replica that is exactly the box which
/// the kernel reads.
#[test]
fn tasks_of_a_halo_exchange() {
    let graph = bound(
        "fn f<dim X>(u: f32[X]) -> f32[X] {
            let v[i] = (u[i - 1] else 0.0) + u[i];
            v
        }",
        &[("X", 6)],
    );
    let plan = plan(&graph, &Cluster::cpus(3), &PlanOptions::default()).expect("a plan");
    let tasks = lower(&graph, &plan).expect("tasks");
    insta::assert_snapshot!(tasks.to_string(), @r"
    taskgraph arenas=72B,136B,136B
      b0 = owned   @0+0 %0 f32 [0..2]
      b1 = owned   @1+0 %0 f32 [2..4]
      b2 = owned   @2+0 %0 f32 [4..6]
      b3 = owned   @0+64 %1 f32 [0..2]
      b4 = owned   @1+64 %1 f32 [2..4]
      b5 = owned   @2+64 %1 f32 [4..6]
      b6 = replica @1+128 %0 f32 [1..3]
      b7 = replica @2+128 %0 f32 [3..5]
      t0 load   %0 -> b0 @0 [0..2]
      t1 kernel %1(0) @0 reads b0 b0 -> b3 [0..2] after t0
      t2 load   %0 -> b1 @1 [2..4]
      t3 copy   b1 -> b6 @1 [2..3] after t2
      t4 move   b0 @0 -> b6 @1 [1..2] 4B after t0
      t5 free   b0 @0 after t1 t4
      t6 kernel %1(1) @1 reads b6 b1 -> b4 [2..4] after t2 t3 t4
      t7 free   b6 @1 after t6
      t8 load   %0 -> b2 @2 [4..6]
      t9 copy   b2 -> b7 @2 [4..5] after t8
      t10 move   b1 @1 -> b7 @2 [3..4] 4B after t2
      t11 free   b1 @1 after t6 t10
      t12 kernel %1(2) @2 reads b7 b2 -> b5 [4..6] after t8 t9 t10
      t13 free   b2 @2 after t12
      t14 free   b7 @2 after t12
      t15 gather b3 @0 -> output 0 [0..2] after t1
      t16 free   b3 @0 after t15
      t17 gather b4 @1 -> output 0 [2..4] after t6
      t18 free   b4 @1 after t17
      t19 gather b5 @2 -> output 0 [4..6] after t12
      t20 free   b5 @2 after t19
    ");
}

/// A large stencil, many steps: nothing but the borders of a 2 × 2 grid of tiles moves.
#[test]
fn the_planner_splits_space() {
    let graph = bound(
        "fn step<dim Y, dim X>(u: f32[Y, X]) -> f32[Y, X] {
            let v[i, j] = u[i, j] + 0.1 * ((u[i - 1, j] else 0.0) + (u[i + 1, j] else 0.0)
                + (u[i, j - 1] else 0.0) + (u[i, j + 1] else 0.0) - 4.0 * u[i, j]);
            v
        }
        fn f<dim Y, dim X>(u: f32[Y, X]) -> f32[Y, X] {
            let mut u = u;
            for i in 0..8 { u = step(u); }
            u
        }",
        &[("Y", 64), ("X", 64)],
    );
    let plan = plan(&graph, &Cluster::cpus(4), &PlanOptions::default()).expect("a plan");
    for join in plan.nodes.iter().filter_map(|n| n.join.as_ref()) {
        assert_eq!(join.parts, [2, 2]);
    }
    // 8 steps, 2 cuts of 64 elements, both ways
    assert_eq!(plan.moved_bytes, 8 * 2 * 64 * 2 * 4);
    assert!(plan.certificate.is_optimal());
    insta::assert_snapshot!(Explain::new(&graph, &plan, &lower(&graph, &plan).expect("tasks")).expect("a table"), @r"
    plan by placed/2 for 4 devices, 2-D-parallel, weights as needed
    optimal over axis layouts with one replica layout per tensor
    optimal over one tuple per device anywhere, with such replicas
    moved 8.00 KiB per run; weights loaded once 0 B; peak memory per device 16.0 KiB
    model communication 391 k elements, 2.42 × the least of any vectors
    statement              parts                        what it does                                  moves   share elements
    0.u.v                  [i=2 j=2]                    spatial-parallel; exchanges halos of u     1.00 KiB  12.5 %   20.2 k
    1.u.v                  [i=2 j=2]                    spatial-parallel; exchanges halos of 0.u…  1.00 KiB  12.5 %   53.0 k
      … and 6 more times, as the 1 row above
    ");
}
