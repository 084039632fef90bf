//! `communication` against tests/data/planner_oracle.json: an independent program's viable sets,
//! costs and optima under the same convention.

use std::collections::{BTreeMap, HashMap};

use eindecomp_core::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn,
};
use eindecomp_core::graph::{BoundGraph, GraphBuilder, NodeId, Role};
use eindecomp_core::plan::communication::{evaluate, plan};
use eindecomp_core::plan::cost::communication::{Communication, agg, join, repart};
use eindecomp_core::plan::partition::viable;
use eindecomp_core::plan::{Algorithm, Certificate, Constraints};
use serde_json::Value;

fn oracle() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/planner_oracle.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap()
}

fn list(v: &Value) -> &[Value] {
    v.as_array().unwrap()
}

fn entries(v: &Value) -> &serde_json::Map<String, Value> {
    v.as_object().unwrap()
}

fn number(v: &Value) -> u128 {
    v.as_u64().unwrap().into()
}

/// A graph under construction, from strings over one letter per index.
#[derive(Default)]
struct Sketch {
    builder: GraphBuilder,
    bounds: HashMap<char, i64>,
}

impl Sketch {
    fn extent(&self, c: char) -> Dim {
        Dim::from(self.bounds[&c])
    }

    fn leaf(&mut self, name: &str, labels: &str) -> NodeId {
        let shape = labels.chars().map(|c| self.extent(c)).collect();
        self.builder
            .input(name, Role::Data, DType::F32, shape)
            .unwrap()
    }

    fn vertex(&mut self, name: &str, ein: &str, inputs: &[NodeId]) -> NodeId {
        let (read, out) = ein.split_once("->").unwrap();
        let mut order: Vec<char> = out.chars().collect();
        for c in read.chars().filter(|&c| c != ',') {
            if !order.contains(&c) {
                order.push(c);
            }
        }
        let id = |c: char| LabelId(order.iter().position(|&o| o == c).unwrap() as u16);
        let reduced: Vec<LabelId> = order[out.len()..].iter().map(|&c| id(c)).collect();
        let operands = read.split(',').zip(inputs).map(|(labels, &node)| Operand {
            node,
            index: labels.chars().map(|c| Expr::Index(id(c))).collect(),
            otherwise: None,
        });
        let labels = order.iter().map(|&c| Label {
            name: c.to_string().into(),
            extent: self.extent(c),
        });
        let spec = EinSumSpec {
            labels: labels.collect(),
            out: out.chars().map(|c| vec![id(c)]).collect(),
            reduce: (!reduced.is_empty()).then_some(Reduce {
                agg: Agg::SUM.into(),
                labels: reduced,
                acc: DType::F32,
                filter: None,
            }),
            operands: operands.collect(),
            body: (0..inputs.len())
                .map(Expr::Operand)
                .reduce(|a, b| Expr::call(ScalarFn::MUL, vec![a, b]))
                .unwrap(),
            dtype: DType::F32,
        };
        let einsum = EinSum::new(spec).unwrap();
        self.builder.einsum(name, einsum, Vec::new()).unwrap()
    }

    fn finish(mut self, last: NodeId) -> BoundGraph {
        self.builder.output("out", last).unwrap();
        self.builder
            .finish()
            .unwrap()
            .bind(&BTreeMap::new())
            .unwrap()
    }
}

/// The oracle's graph, and its vertices in the oracle's order.
fn build(case: &Value) -> (BoundGraph, Vec<NodeId>) {
    let mut sketch = Sketch::default();
    for (label, bound) in entries(&case["bounds"]) {
        sketch
            .bounds
            .insert(label.chars().next().unwrap(), bound.as_i64().unwrap());
    }
    let mut nodes = HashMap::new();
    for (name, labels) in entries(&case["leaves"]) {
        nodes.insert(name.clone(), sketch.leaf(name, text(labels)));
    }
    let mut vertices = Vec::new();
    for vertex in list(&case["vertices"]) {
        let inputs: Vec<NodeId> = list(&vertex["inputs"])
            .iter()
            .map(|t| nodes[text(t)])
            .collect();
        let node = sketch.vertex(text(&vertex["name"]), text(&vertex["ein"]), &inputs);
        nodes.insert(text(&vertex["name"]).to_string(), node);
        vertices.push(node);
    }
    let last = *vertices.last().unwrap();
    (sketch.finish(last), vertices)
}

/// A partition vector written as `{label: parts}`, in the vertex's label order.
fn vector(graph: &BoundGraph, node: NodeId, d: &Value) -> Vec<u32> {
    let labels = &graph.node(node).einsum().unwrap().labels;
    labels
        .iter()
        .map(|l| d[&*l.name].as_u64().unwrap() as u32)
        .collect()
}

#[test]
fn viable_counts() {
    for case in list(&oracle()["viable_counts"]) {
        let labels = &"abcdef"[..case["n_labels"].as_u64().unwrap() as usize];
        let mut sketch = Sketch::default();
        sketch.bounds.extend(labels.chars().map(|c| (c, 64)));
        let x = sketch.leaf("x", labels);
        let y = sketch.vertex("y", &format!("{labels}->{labels}"), &[x]);
        let graph = sketch.finish(y);
        let found = viable(
            &graph,
            y,
            case["p"].as_u64().unwrap() as u32,
            Constraints::default(),
        )
        .unwrap();
        assert_eq!(found.len() as u128, number(&case["count"]), "{case}");
    }
}

#[test]
fn repartition_cases() {
    let parts = |v: &Value| -> Vec<u32> { list(v).iter().map(|d| number(d) as u32).collect() };
    for case in list(&oracle()["repart_unit"]) {
        let shape = list(&case["shape"]);
        let labels = &"abc"[..shape.len()];
        let mut sketch = Sketch::default();
        let bounds = labels
            .chars()
            .zip(shape)
            .map(|(c, n)| (c, n.as_i64().unwrap()));
        sketch.bounds.extend(bounds);
        let copy = format!("{labels}->{labels}");
        let x = sketch.leaf("x", labels);
        let y = sketch.vertex("y", &copy, &[x]);
        let z = sketch.vertex("z", &copy, &[y]);
        let graph = sketch.finish(z);
        let cost = repart(&graph, z, 0, &parts(&case["from"]), &parts(&case["to"]));
        assert_eq!(cost, number(&case["cost"]), "{case}");
    }
}

#[test]
fn matmul_tables() {
    let oracle = oracle();
    for (name, tables) in entries(&oracle["matmul_tables"]) {
        let (graph, vertices) = build(&oracle["graphs"][name]);
        let z = vertices[0];
        for (p, rows) in entries(tables) {
            let found = viable(&graph, z, p.parse().unwrap(), Constraints::default()).unwrap();
            assert_eq!(found.len(), list(rows).len());
            for (d, row) in found.iter().zip(list(rows)) {
                // rows in the oracle's order, labels i j k; canonical order is i k j
                let expected: Vec<u128> = list(&row["d"]).iter().map(number).collect();
                assert_eq!(
                    [d[0], d[2], d[1]].map(u128::from),
                    expected[..],
                    "{name} {p}"
                );
                assert_eq!(join(&graph, z, d), number(&row["join"]), "{name} {row}");
                assert_eq!(agg(&graph, z, d), number(&row["agg"]), "{name} {row}");
            }
        }
    }
}

#[test]
fn graphs() {
    for (name, case) in entries(&oracle()["graphs"]) {
        let (graph, vertices) = build(case);
        for (p, expected) in entries(&case["p"]) {
            let devices: u32 = p.parse().unwrap();
            let context = format!("{name} p={p}");
            let sizes = vertices.iter().map(|&v| {
                viable(&graph, v, devices, Constraints::default())
                    .unwrap()
                    .len()
            });
            let domains: Vec<u128> = list(&expected["domain_sizes"]).iter().map(number).collect();
            assert!(sizes.map(|n| n as u128).eq(domains), "{context}");

            let exact = plan(&graph, devices, Algorithm::Exact).unwrap();
            assert_eq!(
                exact.certificate.cost,
                number(&expected["opt"]),
                "{context}"
            );
            assert!(exact.certificate.is_optimal(), "{context}");
            let cost = evaluate(&graph, &exact.vectors, &Communication);
            assert_eq!(cost, exact.certificate.cost, "{context}");

            let theirs = plan_of(&graph, &vertices, &expected["opt_plan"]);
            let cost = evaluate(&graph, &theirs, &Communication);
            assert_eq!(cost, exact.certificate.cost, "{context}");

            let linear = plan(&graph, devices, Algorithm::Linearized).unwrap();
            assert_eq!(
                linear.certificate.cost,
                number(&expected["lin"]),
                "{context}"
            );
            let theirs = plan_of(&graph, &vertices, &expected["lin_plan"]);
            assert_eq!(linear.vectors, theirs, "{context}");

            let enumerated = &expected["literal_brute_force"];
            if !enumerated.is_null() {
                let all = plan(&graph, devices, Algorithm::Exhaustive).unwrap();
                let min = number(&enumerated["min"]);
                let Certificate { cost, bound, .. } = all.certificate;
                assert_eq!((cost, bound), (min, min), "{context}");
            }
        }
    }
}

fn plan_of(graph: &BoundGraph, vertices: &[NodeId], vectors: &Value) -> Vec<Option<Vec<u32>>> {
    let mut all = vec![None; graph.nodes().len()];
    for &v in vertices {
        all[v.at()] = Some(vector(graph, v, &vectors[&*graph.node(v).name]));
    }
    all
}
