//! Faults of other libraries, as cases: one function per kind.

use eindecomp::{Cluster, Objective, Residency};
use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::{BoundGraph, EinsumStrError, NodeId, Role};
use eindecomp_core::plan::planner::{PlanOptions, plan};
use eindecomp_core::plan::verify::verify;
use serde_json::Value as Json;

use crate::build::dtype;
use crate::cases::{
    Draft, Work, data, ext, ext_graph, formula, partitions, refused, text, written_labels_differ,
};
use crate::expect::{Expect, list, number, numbers, shape};

/// The work of a case whose line is `line`.
///
/// # Errors
/// A kind that is unknown, or a case that does not fit its kind.
pub fn bug(line: &str, v: &Json) -> Result<Work, String> {
    match text(&v["kind"]) {
        "einsum" => einsum(v),
        "einsum_error" => Ok(refused(over(v)?.1, &accepted(v), text(&v["message_has"]))),
        "einsum_consistent" => consistent(v),
        "einsum_equal" => equal(v),
        "ext" => ext(v),
        "graph" if v["steps"].is_array() => ext_graph(line, v),
        "graph" => chain(v),
        "plan" | "plan_size" | "plan_cost_big" => planned(v),
        kind => Err(format!("cases of kind `{kind}` are unknown")),
    }
}

/// The operands of a case: `operands` with data, or `shapes` of whole numbers or of `fill`.
fn operands(draft: &mut Draft, v: &Json) -> Result<Vec<NodeId>, String> {
    let (dtype, mut operands) = (dtype(v)?, Vec::new());
    let same = v["same_operand"].as_bool().unwrap_or(false);
    let given = list(&v["operands"]);
    let shapes = list(&v["shapes"]).iter().map(shape);
    let of_data = given.iter().map(|o| shape(&o["shape"]));
    let shapes: Vec<Vec<usize>> = of_data.chain(shapes).collect();
    for (k, shape) in shapes.iter().enumerate() {
        if same && k > 0 {
            operands.push(operands[0]);
            continue;
        }
        let count = shape.iter().product();
        let data = match (given.get(k), v["fill"].as_f64()) {
            (Some(operand), _) => data(operand, dtype, k, 0.0)?,
            (None, Some(fill)) => vec![fill; count],
            (None, None) => formula("modint", dtype, count, k, 0.0)?,
        };
        operands.push(draft.input(&format!("x{k}"), dtype, shape, &data)?);
    }
    Ok(operands)
}

/// The string over its operands.
fn over(v: &Json) -> Result<(Draft, Result<NodeId, EinsumStrError>), String> {
    let mut draft = Draft::default();
    let operands = operands(&mut draft, v)?;
    let result = draft.graph.einsum_str(text(&v["expr"]), &operands);
    Ok((draft, result))
}

fn accepted(v: &Json) -> Vec<&str> {
    let kinds = list(&v["accept_kinds"]).iter().map(text);
    kinds.chain(v["error"].as_str()).collect()
}

fn einsum(v: &Json) -> Result<Work, String> {
    let (draft, result) = over(v)?;
    let shapes: Vec<Vec<usize>> = list(&v["operands"])
        .iter()
        .map(|o| shape(&o["shape"]))
        .collect();
    if written_labels_differ(text(&v["expr"]), &shapes) {
        return Ok(refused(result, &["extent_mismatch"], ""));
    }
    let y = result.map_err(|e| e.to_string())?;
    Ok(Work::Run {
        program: Box::new(draft.finish(&[("y", y)])?),
        expect: vec![Expect::values(&v["expect"], v)],
        exact: v["exact"].as_bool().unwrap_or(false),
        may_error: v["may_error"].as_bool().unwrap_or(false),
        partitions: partitions(v),
    })
}

/// Refused for its extents before any plan is made, or the same bits under every plan.
fn consistent(v: &Json) -> Result<Work, String> {
    let (draft, result) = over(v)?;
    let Ok(y) = result else {
        return Ok(refused(result, &["extent_mismatch"], ""));
    };
    Ok(Work::Run {
        program: Box::new(draft.finish(&[("y", y)])?),
        expect: Vec::new(),
        exact: true,
        may_error: false,
        partitions: partitions(v),
    })
}

/// Strings one after the other: each takes the result so far, then the next inputs.
fn chain(v: &Json) -> Result<Work, String> {
    let mut draft = Draft::default();
    let mut waiting = operands(&mut draft, v)?.into_iter();
    let mut result = None;
    for expr in list(&v["expr"]) {
        let count = text(expr).matches(',').count() + 1;
        let mut operands: Vec<NodeId> = result.into_iter().collect();
        operands.extend(waiting.by_ref().take(count.saturating_sub(operands.len())));
        let next = draft.graph.einsum_str(text(expr), &operands);
        result = Some(next.map_err(|e| e.to_string())?);
    }
    Ok(Work::Run {
        program: Box::new(draft.finish(&[("y", result.ok_or("no strings")?)])?),
        expect: vec![Expect::values(&v["expect"], v)],
        exact: v["exact"].as_bool().unwrap_or(false),
        may_error: false,
        partitions: partitions(v),
    })
}

/// `left` over matrices against `right` over their stored transposes, all sizes in one graph each.
fn equal(v: &Json) -> Result<Work, String> {
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
    let (left, right) = (
        side(text(&v["left"]), false)?,
        side(text(&v["right"]), true)?,
    );
    Ok(Work::Equal(Box::new([left, right])))
}

/// What the planner says of a string over `shapes`, which need no data: sizes, each label counted
/// once; a sound plan for `p` devices (1, 2, 3, 4 and 8 if it says none), whose cost is no less
/// than its bound; `cost`, the optimum of the paper's model in elements.
fn planned(v: &Json) -> Result<Work, String> {
    let known = [
        "id",
        "kind",
        "expr",
        "shapes",
        "p",
        "note",
        "rule",
        "may_error",
        "output_elements",
        "join_elements",
        "cost",
    ];
    let field = v.as_object().into_iter().flatten().map(|(name, _)| name);
    if let Some(name) = field.clone().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("a planner's case has no field `{name}`"));
    }
    let (mut draft, mut operands) = (Draft::default(), Vec::new());
    for (k, s) in list(&v["shapes"]).iter().enumerate() {
        let extents = list(s).iter().map(|n| Dim::from(n.as_i64().unwrap_or(-1)));
        let name = format!("x{k}");
        let added = draft
            .graph
            .input(name, Role::Data, DType::F64, extents.collect());
        operands.push(added.map_err(|e| e.to_string())?);
    }
    let y = draft.graph.einsum_str(text(&v["expr"]), &operands);
    let y = y.map_err(|e| e.to_string())?;
    let graph = match draft.finish(&[("y", y)]) {
        // tensors that no machine could address are refused before they are planned
        Err(_) if v["may_error"].as_bool() == Some(true) => return Ok(Work::Settled(Ok(()))),
        program => program?.graph,
    };
    let product = |extents: &[usize]| extents.iter().map(|&n| n as u128).product();
    holds("output_elements", v, product(graph.shape(y)))?;
    holds("join_elements", v, product(graph.label_extents(y)))?;
    let devices = match &v["p"] {
        Json::Null => vec![1.0, 2.0, 3.0, 4.0, 8.0],
        Json::Array(_) => numbers(&v["p"]),
        one => vec![number(one)],
    };
    for p in devices {
        plans(v, &graph, &Cluster::cpus(p as u32)).map_err(|e| format!("p={p}: {e}"))?;
    }
    Ok(Work::Settled(Ok(())))
}

fn plans(v: &Json, graph: &BoundGraph, cluster: &Cluster) -> Result<(), String> {
    // a case may be larger than the devices' memory; what is asked is what it costs
    let cluster = cluster.clone().with_capacity(u64::MAX);
    for objective in [Objective::Communication, Objective::Placed] {
        let options = PlanOptions {
            objective,
            residency: Residency::AsNeeded,
            ..PlanOptions::default()
        };
        let plan = plan(graph, &cluster, &options).map_err(|e| e.to_string())?;
        verify(graph, &plan, &cluster).map_err(|e| e.to_string())?;
        if plan.certificate.cost < plan.certificate.bound {
            return Err(format!("costs less than its bound: {}", plan.certificate));
        }
        if objective == Objective::Communication {
            holds("cost", v, plan.certificate.cost)?;
        }
    }
    Ok(())
}

/// Is a number, written as such or as decimal digits, what the case wants, if it says?
fn holds(name: &str, v: &Json, got: u128) -> Result<(), String> {
    let want = match &v[name] {
        Json::Null => return Ok(()),
        Json::String(digits) => digits.clone(),
        n => n.to_string(),
    };
    match want == got.to_string() || want.parse() == Ok(got as f64) {
        true => Ok(()),
        false => Err(format!("{name}: got {got}, want {want}")),
    }
}
