//! Case files: one JSON object per line; tests/data/cases/README.md says what each kind means.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::{BoundGraph, EinsumStrError, GraphBuilder, NodeId, Role};
use eindecomp_core::reference::RefTensor;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;

use crate::build::{dtype, step};
use crate::expect::{Expect, list, number, numbers, shape};

pub type Inputs = BTreeMap<Arc<str>, RefTensor>;

/// A graph with data.
pub struct Program {
    pub graph: BoundGraph,
    pub inputs: Inputs,
    /// Points of the largest iteration space.
    pub space: f64,
}

/// One line of a case file.
pub struct Case {
    pub id: String,
    pub kind: String,
    pub work: Work,
}

/// What is to be done with a case.
pub enum Work {
    /// Run it: one expectation per output. `partitions`: numbers of blocks per label to try too.
    Run {
        program: Program,
        expect: Vec<Expect>,
        may_error: bool,
        partitions: Vec<BTreeMap<String, u32>>,
    },
    /// Both must give the same bits.
    Equal(Program, Program),
    /// Settled without running anything.
    Settled(Result<(), String>),
}

/// Every line of a file.
pub fn read(text: &str) -> Vec<Case> {
    text.lines()
        .filter(|l| !l.trim().is_empty())
        .map(line)
        .collect()
}

fn line(text: &str) -> Case {
    let v: Json = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let (kind, work) = match (v["type"].as_str(), v["kind"].as_str()) {
        (Some("case"), _) => ("ext", ext(&v)),
        (Some("graph"), _) => ("ext graph", ext_graph(text, &v)),
        (_, Some(kind)) => (kind, bug(kind, &v)),
        _ => ("einsum", einsum(&v)),
    };
    let kind = match v["kind"] {
        Json::Null => kind.to_owned(),
        _ => format!("bug {kind}"),
    };
    Case {
        id: v["id"].as_str().unwrap_or("?").to_owned(),
        kind,
        work: work.unwrap_or_else(|e| Work::Settled(Err(e))),
    }
}

/// A graph under construction, with its data.
#[derive(Default)]
struct Draft {
    graph: GraphBuilder,
    inputs: Inputs,
}

impl Draft {
    fn input(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        data: &[f64],
    ) -> Result<NodeId, String> {
        let tensor = RefTensor::from_f64(dtype, shape.to_vec(), data).map_err(|e| e.to_string())?;
        self.inputs.insert(name.into(), tensor);
        let extents = shape.iter().map(|&n| Dim::from(n as i64)).collect();
        let added = self.graph.input(name, Role::Data, dtype, extents);
        added.map_err(|e| e.to_string())
    }

    fn finish(mut self, outputs: &[(&str, NodeId)]) -> Result<Program, String> {
        for &(name, node) in outputs {
            self.graph.output(name, node).map_err(|e| e.to_string())?;
        }
        let graph = self.graph.finish().map_err(|e| e.to_string())?;
        graph.verify().map_err(|v| format!("{v:?}"))?;
        let graph = graph.bind(&BTreeMap::new()).map_err(|e| format!("{e:?}"))?;
        let points = |id| graph.label_extents(id).iter().map(|&n| n as f64).product();
        let space = graph.ids().map(|(id, _)| points(id)).fold(0.0, f64::max);
        Ok(Program {
            graph,
            inputs: self.inputs,
            space,
        })
    }
}

/// The formula `kind` for operand `k`, rounded to `dtype`.
fn formula(
    kind: &str,
    dtype: DType,
    count: usize,
    k: usize,
    seed: f64,
) -> Result<Vec<f64>, String> {
    let (k, flat) = (k as f64, |i: usize| i as f64);
    let value: Box<dyn Fn(usize) -> f64> = match kind {
        "sin" => Box::new(move |i| (0.7 * flat(i) + k + 0.31 * seed).sin() + 0.01 * k),
        "pos" => Box::new(move |i| 1.25 + (0.7 * flat(i) + k + 0.31 * seed).sin()),
        "modint" => Box::new(move |i| (7.0 * flat(i) + 3.0 * k + seed) % 11.0 - 5.0),
        "arange" => Box::new(flat),
        "ones" => Box::new(|_| 1.0),
        kind => return Err(format!("no formula {kind}")),
    };
    let round = |x: f64| {
        if dtype == DType::F32 {
            x as f32 as f64
        } else {
            x
        }
    };
    Ok((0..count).map(value).map(round).collect())
}

/// The data of `{shape, kind | formula | data}`.
fn data(v: &Json, dtype: DType, k: usize, seed: f64) -> Result<Vec<f64>, String> {
    let kind = v["kind"].as_str().or(v["formula"].as_str());
    match &v["data"] {
        Json::Null => {
            let count = shape(&v["shape"]).iter().product();
            formula(kind.unwrap_or("sin"), dtype, count, k, seed)
        }
        values => Ok(numbers(values)),
    }
}

fn text(v: &Json) -> &str {
    v.as_str().unwrap_or_default()
}

fn refused(result: Result<NodeId, EinsumStrError>, kinds: &[&str], has: &str) -> Work {
    Work::Settled(match result {
        Err(e) if kinds.contains(&e.kind.code()) && e.to_string().contains(has) => Ok(()),
        Err(e) => Err(format!("got {} ({e}), want {kinds:?} {has}", e.kind.code())),
        Ok(_) => Err(format!("got a graph, want {kinds:?}")),
    })
}

/// Has a written label two extents, one of them 1? Those do not stretch here.
fn written_labels_differ(expr: &str, shapes: &[Vec<usize>]) -> bool {
    let mut seen: BTreeMap<char, usize> = BTreeMap::new();
    let expr: String = expr.chars().filter(|c| !c.is_whitespace()).collect();
    let terms = expr.split("->").next().unwrap_or_default().split(',');
    let mut differ = false;
    for (term, shape) in terms.zip(shapes) {
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let front = before.chars().zip(shape);
        let back = after.chars().rev().zip(shape.iter().rev());
        for (c, &n) in front.chain(back) {
            differ |= *seen.entry(c).or_insert(n) != n;
        }
    }
    differ
}

fn needs(v: &Json, what: &str) -> bool {
    list(&v["needs"]).iter().any(|n| text(n) == what)
}

fn einsum(v: &Json) -> Result<Work, String> {
    let dtype = dtype(v)?;
    let shapes: Vec<Vec<usize>> = list(&v["shapes"]).iter().map(shape).collect();
    let (mut draft, mut operands) = (Draft::default(), Vec::new());
    let same = v["same_operand"].as_bool().unwrap_or(false);
    for (k, shape) in shapes.iter().enumerate() {
        if same && k > 0 {
            operands.push(operands[0]);
            continue;
        }
        let count = shape.iter().product();
        let data = formula(text(&v["input"]), dtype, count, k, number(&v["seed"]))?;
        operands.push(draft.input(&format!("x{k}"), dtype, shape, &data)?);
    }
    let result = draft.graph.einsum_str(text(&v["expr"]), &operands);
    let expect = &v["expect"];
    if !expect["error"].is_null() {
        let kinds: Vec<&str> = list(&expect["accept_kinds"]).iter().map(text).collect();
        return Ok(refused(result, &kinds, ""));
    }
    if needs(v, "ellipsis_summed") {
        return Ok(refused(result, &["ellipsis_missing_in_output"], ""));
    }
    if needs(v, "size1_broadcast") && written_labels_differ(text(&v["expr"]), &shapes) {
        return Ok(refused(result, &["extent_mismatch"], ""));
    }
    let y = result.map_err(|e| e.to_string())?;
    let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-12 };
    let exact = v["exact"].as_bool().unwrap_or(false);
    Ok(Work::Run {
        program: draft.finish(&[("y", y)])?,
        expect: vec![Expect::probes(expect, tolerance, exact)],
        may_error: false,
        partitions: Vec::new(),
    })
}

fn partitions(v: &Json) -> Vec<BTreeMap<String, u32>> {
    let one = |p: &Json| {
        let labels = p.as_object().into_iter().flatten();
        labels.map(|(l, n)| (l.clone(), number(n) as u32)).collect()
    };
    list(&v["partitions"]).iter().map(one).collect()
}

fn ext(v: &Json) -> Result<Work, String> {
    let dtype = dtype(v)?;
    let (mut draft, mut operands) = (Draft::default(), Vec::new());
    for (k, input) in list(&v["inputs"]).iter().enumerate() {
        let data = data(input, dtype, k, v["seed"].as_f64().unwrap_or(0.0))?;
        operands.push(draft.input(&format!("x{k}"), dtype, &shape(&input["shape"]), &data)?);
    }
    let y = step(&mut draft.graph, "y", v, &operands)?;
    Ok(Work::Run {
        program: draft.finish(&[("y", y)])?,
        expect: vec![Expect::values(&v["expect"], &v["expect"])],
        may_error: v["expect"]["may_error"].as_bool().unwrap_or(false),
        partitions: partitions(v),
    })
}

/// The entries of an object in the order they are written, which numbers a graph's tensors.
#[derive(Default)]
struct Entries(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Entries, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Entries;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        d.deserialize_map(Visit)
    }
}

#[derive(Deserialize)]
struct Tensors {
    tensors: Entries,
}

fn ext_graph(text_of_case: &str, v: &Json) -> Result<Work, String> {
    let dtype = dtype(v)?;
    let mut draft = Draft::default();
    let mut tensors: BTreeMap<String, NodeId> = BTreeMap::new();
    let written: Tensors = serde_json::from_str(text_of_case).map_err(|e| e.to_string())?;
    for (k, (name, tensor)) in written.tensors.0.iter().enumerate() {
        let data = data(tensor, dtype, k, v["seed"].as_f64().unwrap_or(0.0))?;
        let id = draft.input(name, dtype, &shape(&tensor["shape"]), &data)?;
        tensors.insert(name.clone(), id);
    }
    for s in list(&v["steps"]) {
        let read = |i: &Json| {
            tensors
                .get(text(&i["ref"]))
                .copied()
                .ok_or("no such tensor")
        };
        let operands = list(&s["inputs"])
            .iter()
            .map(read)
            .collect::<Result<Vec<_>, _>>()?;
        let id = step(&mut draft.graph, text(&s["name"]), s, &operands)?;
        tensors.insert(text(&s["name"]).to_owned(), id);
    }
    let (mut outputs, mut expect) = (Vec::new(), Vec::new());
    for (name, want) in v["expect"]["outputs"].as_object().into_iter().flatten() {
        outputs.push((name.as_str(), *tensors.get(name).ok_or("no such output")?));
        expect.push(Expect::values(want, &v["expect"]));
    }
    Ok(Work::Run {
        program: draft.finish(&outputs)?,
        expect,
        may_error: false,
        partitions: partitions(v),
    })
}

fn bug(kind: &str, v: &Json) -> Result<Work, String> {
    match kind {
        "einsum" => bug_einsum(v),
        "einsum_error" => bug_refused(v, text(&v["error"])),
        "einsum_consistent" => bug_refused(v, "extent_mismatch"),
        "einsum_equal" => bug_equal(v),
        "ext" => ext(v),
        "graph" => bug_chain(v),
        "plan_size" => bug_size(v),
        kind => Err(format!("cases of kind `{kind}` are unknown")),
    }
}

fn bug_einsum(v: &Json) -> Result<Work, String> {
    let (mut draft, mut operands, mut shapes) = (Draft::default(), Vec::new(), Vec::new());
    let same = v["same_operand"].as_bool().unwrap_or(false);
    for (k, operand) in list(&v["operands"]).iter().enumerate() {
        shapes.push(shape(&operand["shape"]));
        if same && k > 0 {
            operands.push(operands[0]);
            continue;
        }
        let data = data(operand, DType::F64, k, 0.0)?;
        operands.push(draft.input(&format!("x{k}"), DType::F64, &shapes[k], &data)?);
    }
    let result = draft.graph.einsum_str(text(&v["expr"]), &operands);
    if written_labels_differ(text(&v["expr"]), &shapes) {
        return Ok(refused(result, &["extent_mismatch"], ""));
    }
    let y = result.map_err(|e| e.to_string())?;
    Ok(Work::Run {
        program: draft.finish(&[("y", y)])?,
        expect: vec![Expect::values(&v["expect"], v)],
        may_error: v["may_error"].as_bool().unwrap_or(false),
        partitions: partitions(v),
    })
}

/// A graph over inputs of zeros of these shapes.
fn zeros(shapes: &[Vec<usize>]) -> Result<(Draft, Vec<NodeId>), String> {
    let mut draft = Draft::default();
    let mut operands = Vec::new();
    for (k, shape) in shapes.iter().enumerate() {
        let extents = shape.iter().map(|&n| Dim::from(n as i64)).collect();
        let added = draft
            .graph
            .input(format!("x{k}"), Role::Data, DType::F64, extents);
        operands.push(added.map_err(|e| e.to_string())?);
    }
    Ok((draft, operands))
}

fn bug_refused(v: &Json, kind: &str) -> Result<Work, String> {
    let shapes: Vec<Vec<usize>> = list(&v["shapes"]).iter().map(shape).collect();
    let (mut draft, operands) = zeros(&shapes)?;
    let result = draft.graph.einsum_str(text(&v["expr"]), &operands);
    Ok(refused(result, &[kind], text(&v["message_has"])))
}

fn bug_size(v: &Json) -> Result<Work, String> {
    let shapes: Vec<Vec<usize>> = list(&v["shapes"]).iter().map(shape).collect();
    let (mut draft, operands) = zeros(&shapes)?;
    let y = draft
        .graph
        .einsum_str(text(&v["expr"]), &operands)
        .map_err(|e| e.to_string())?;
    let graph = draft.finish(&[("y", y)])?.graph;
    let got = (
        graph.elements(y),
        graph.label_extents(y).iter().product::<usize>(),
    );
    let want = (
        number(&v["output_elements"]) as usize,
        number(&v["join_elements"]) as usize,
    );
    Ok(Work::Settled(match got == want {
        true => Ok(()),
        false => Err(format!(
            "output and join elements: got {got:?}, want {want:?}"
        )),
    }))
}

/// Strings one after the other: each takes the result so far, then the next inputs.
fn bug_chain(v: &Json) -> Result<Work, String> {
    let mut draft = Draft::default();
    let mut waiting = Vec::new();
    for (k, s) in list(&v["shapes"]).iter().enumerate() {
        let shape = shape(s);
        let data = vec![number(&v["fill"]); shape.iter().product()];
        waiting.push(draft.input(&format!("x{k}"), DType::F64, &shape, &data)?);
    }
    let mut waiting = waiting.into_iter();
    let mut result = None;
    for expr in list(&v["expr"]) {
        let count = text(expr).matches(',').count() + 1;
        let mut operands: Vec<NodeId> = result.into_iter().collect();
        operands.extend(waiting.by_ref().take(count - operands.len()));
        let next = draft.graph.einsum_str(text(expr), &operands);
        result = Some(next.map_err(|e| e.to_string())?);
    }
    Ok(Work::Run {
        program: draft.finish(&[("y", result.ok_or("no strings")?)])?,
        expect: vec![Expect::values(&v["expect"], v)],
        may_error: false,
        partitions: partitions(v),
    })
}

/// `left` over matrices against `right` over their stored transposes, all sizes in one graph each.
fn bug_equal(v: &Json) -> Result<Work, String> {
    let side = |expr: &str, transposed: bool| {
        let mut draft = Draft::default();
        let mut outputs = Vec::new();
        for n in numbers(&v["sizes"]) {
            let n = n as usize;
            let mut operands = Vec::new();
            for k in 0..expr.matches(',').count() + 1 {
                let matrix = formula("modint", DType::F64, n * n, k, 0.0)?;
                let data: Vec<f64> = match transposed {
                    true => (0..n * n).map(|i| matrix[i % n * n + i / n]).collect(),
                    false => matrix,
                };
                let name = format!("x{k} of {n}");
                operands.push(draft.input(&name, DType::F64, &[n, n], &data)?);
            }
            let y = draft.graph.einsum_str(expr, &operands);
            outputs.push((format!("y of {n}"), y.map_err(|e| e.to_string())?));
        }
        let outputs: Vec<(&str, NodeId)> = outputs.iter().map(|(n, y)| (n.as_str(), *y)).collect();
        draft.finish(&outputs)
    };
    Ok(Work::Equal(
        side(text(&v["left"]), false)?,
        side(text(&v["right"]), true)?,
    ))
}
