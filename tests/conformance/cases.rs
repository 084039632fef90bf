//! Case files: one JSON object per line; tests/data/cases/README.md says what each kind means.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::{BoundGraph, EinsumStrError, GraphBuilder, NodeId, Role};
use eindecomp_core::reference::RefTensor;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;

use crate::bugs::bug;
use crate::build::{dtype, step};
use crate::expect::{Expect, list, number, numbers, shape};
use crate::runner::Parts;

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
    /// Run it: one expectation per output, or none. `exact`: every runner gives the same bits.
    /// `partitions`: numbers of blocks per label to try too.
    Run {
        program: Box<Program>,
        expect: Vec<Expect>,
        exact: bool,
        may_error: bool,
        partitions: Vec<Parts>,
    },
    /// Both must give the same bits.
    Equal(Box<[Program; 2]>),
    /// Settled without running anything.
    Settled(Result<(), String>),
}

/// Every line of a file; one that is no JSON is a failing case.
pub fn read(text: &str, file: &str) -> Vec<Case> {
    let lines = text.lines().enumerate();
    let written = lines.filter(|(_, l)| !l.trim().is_empty());
    let case = |(n, text)| match serde_json::from_str(text) {
        Ok(v) => line(text, v),
        Err(e) => Case {
            id: format!("{file}:{}", n + 1),
            kind: "unreadable".into(),
            work: Work::Settled(Err(e.to_string())),
        },
    };
    written.map(case).collect()
}

fn line(text: &str, v: Json) -> Case {
    let kind = match (v["type"].as_str(), v["kind"].as_str()) {
        (Some("case"), _) => "ext".into(),
        (Some("graph"), _) => "ext graph".into(),
        (_, Some(kind)) => format!("bug {kind}"),
        _ => "einsum".into(),
    };
    let read = || match kind.as_str() {
        "ext" => ext(&v),
        "ext graph" => ext_graph(text, &v),
        "einsum" => einsum(&v),
        _ => bug(text, &v),
    };
    let work = caught(read);
    Case {
        id: v["id"].as_str().unwrap_or("?").to_owned(),
        kind,
        work: work.unwrap_or_else(|e| Work::Settled(Err(e))),
    }
}

/// The work, or its panic as an error: one bad case must not hide the others.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// A graph under construction, with its data.
#[derive(Default)]
pub struct Draft {
    pub graph: GraphBuilder,
    inputs: Inputs,
}

impl Draft {
    pub fn input(
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

    pub fn finish(mut self, outputs: &[(&str, NodeId)]) -> Result<Program, String> {
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
pub fn formula(
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
pub fn data(v: &Json, dtype: DType, k: usize, seed: f64) -> Result<Vec<f64>, String> {
    let kind = v["kind"].as_str().or(v["formula"].as_str());
    match &v["data"] {
        Json::Null => {
            let count = shape(&v["shape"]).iter().product();
            formula(kind.unwrap_or("sin"), dtype, count, k, seed)
        }
        values => Ok(numbers(values)),
    }
}

pub fn text(v: &Json) -> &str {
    v.as_str().unwrap_or_default()
}

pub fn refused(result: Result<NodeId, EinsumStrError>, kinds: &[&str], has: &str) -> Work {
    Work::Settled(match result {
        Err(e) if kinds.contains(&e.kind.code()) && e.to_string().contains(has) => Ok(()),
        Err(e) => Err(format!("got {} ({e}), want {kinds:?} {has}", e.kind.code())),
        Ok(_) => Err(format!("got a graph, want {kinds:?}")),
    })
}

/// Has a written label two extents, one of them 1? Those do not stretch here.
pub fn written_labels_differ(expr: &str, shapes: &[Vec<usize>]) -> bool {
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
        program: Box::new(draft.finish(&[("y", y)])?),
        expect: vec![Expect::probes(expect, tolerance, exact)],
        exact,
        may_error: false,
        partitions: Vec::new(),
    })
}

pub fn partitions(v: &Json) -> Vec<Parts> {
    let one = |p: &Json| {
        let labels = p.as_object().into_iter().flatten();
        labels.map(|(l, n)| (l.clone(), number(n) as u32)).collect()
    };
    list(&v["partitions"]).iter().map(one).collect()
}

pub fn ext(v: &Json) -> Result<Work, String> {
    let dtype = dtype(v)?;
    let (mut draft, mut operands) = (Draft::default(), Vec::new());
    for (k, input) in list(&v["inputs"]).iter().enumerate() {
        let data = data(input, dtype, k, v["seed"].as_f64().unwrap_or(0.0))?;
        operands.push(draft.input(&format!("x{k}"), dtype, &shape(&input["shape"]), &data)?);
    }
    let y = step(&mut draft.graph, "y", v, &operands)?;
    Ok(Work::Run {
        program: Box::new(draft.finish(&[("y", y)])?),
        expect: vec![Expect::values(&v["expect"], &v["expect"])],
        exact: v["exact"].as_bool().unwrap_or(false),
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

pub fn ext_graph(text_of_case: &str, v: &Json) -> Result<Work, String> {
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
        program: Box::new(draft.finish(&outputs)?),
        expect,
        exact: v["exact"].as_bool().unwrap_or(false),
        may_error: false,
        partitions: partitions(v),
    })
}
