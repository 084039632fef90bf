//! Graphs of the extended cases: join, aggregation and unary maps by name.

use eindecomp_core::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn, Value,
};
use eindecomp_core::graph::{GraphBuilder, NodeId};
use serde_json::Value as Json;

use crate::expect::list;

/// One step of a case: `{inputs: [{labels, pre}], output, join, agg, post, scale}` over `operands`.
///
/// # Errors
/// A name that the tables do not have, or a step that the builder refuses.
pub fn step(
    graph: &mut GraphBuilder,
    name: &str,
    step: &Json,
    operands: &[NodeId],
) -> Result<NodeId, String> {
    let text = |v: &Json| v.as_str().unwrap_or_default().to_owned();
    let inputs = list(&step["inputs"]);
    let node = |id: NodeId| graph.node(id).ok_or("no such tensor");
    let dtype = node(operands[0])?.dtype;
    let output: Vec<char> = text(&step["output"]).chars().collect();
    let mut labels = output.clone();
    let mut extents: Vec<(char, Dim)> = Vec::new();
    for (input, &id) in inputs.iter().zip(operands) {
        for (c, extent) in text(&input["labels"]).chars().zip(&node(id)?.shape) {
            extents.push((c, extent.clone()));
            if !labels.contains(&c) {
                labels.push(c);
            }
        }
    }
    let index = |c: char| {
        let at = labels.iter().position(|&l| l == c);
        Expr::Index(LabelId(at.unwrap_or(labels.len()) as u16))
    };
    let reads = inputs.iter().zip(operands).map(|(input, &node)| Operand {
        node,
        index: text(&input["labels"]).chars().map(index).collect(),
        otherwise: None,
    });
    let reads: Vec<Operand> = reads.collect();
    let mut terms = Vec::new();
    for (n, input) in inputs.iter().enumerate() {
        terms.push(maps(Expr::Operand(n), &input["pre"])?);
    }
    let joined = join(&text(&step["join"]), terms)?;

    let scale = step["scale"].as_f64();
    let scaled = |graph: &mut GraphBuilder, x: Expr| match scale {
        Some(s) => Expr::call(ScalarFn::MUL, [x, graph.literal(Value::Float(s), dtype)]),
        None => x,
    };
    let all = |labels: &[char]| {
        let label = |c: &char| Label {
            name: c.to_string().into(),
            extent: extents
                .iter()
                .find(|e| e.0 == *c)
                .map(|e| e.1.clone())
                .unwrap_or_default(),
        };
        labels.iter().map(label).collect::<Vec<_>>()
    };
    let out: Vec<Vec<LabelId>> = (0..output.len()).map(|l| vec![LabelId(l as u16)]).collect();
    let reduced: Vec<LabelId> = (output.len()..labels.len())
        .map(|l| LabelId(l as u16))
        .collect();
    let agg = text(&step["agg"]);
    let add = |graph: &mut GraphBuilder, name: String, spec: EinSumSpec| {
        let einsum = EinSum::new(spec).map_err(|e| e.to_string())?;
        graph
            .einsum(name, einsum, Vec::new())
            .map_err(|e| e.to_string())
    };
    if reduced.is_empty() {
        let body = scaled(graph, joined);
        let spec = EinSumSpec {
            labels: all(&labels),
            out,
            reduce: None,
            operands: reads,
            body: maps(body, &step["post"])?,
            dtype,
        };
        return add(graph, name.to_owned(), spec);
    }
    let mean = agg == "mean";
    let reduce = Reduce {
        agg: Agg::from_name(if mean { "sum" } else { &agg })
            .ok_or(format!("no aggregation {agg}"))?
            .into(),
        labels: reduced,
        acc: dtype.default_accumulator(),
        filter: None,
    };
    let folded = EinSumSpec {
        labels: all(&labels),
        out: out.clone(),
        reduce: Some(reduce),
        operands: reads,
        body: joined,
        dtype,
    };
    let node = add(graph, format!("{name}.fold"), folded)?;
    let mut body = Expr::Operand(0);
    if mean {
        let count = all(&labels[output.len()..]);
        let count = Dim::product(count.iter().map(|l| &l.extent));
        let count = Expr::Cast(dtype, Box::new(Expr::Dim(count)));
        body = Expr::call(ScalarFn::DIV, [body, count]);
    }
    let body = scaled(graph, body);
    let finish = EinSumSpec {
        labels: all(&output),
        out: out.clone(),
        reduce: None,
        operands: vec![Operand {
            node,
            index: (0..output.len())
                .map(|l| Expr::Index(LabelId(l as u16)))
                .collect(),
            otherwise: None,
        }],
        body: maps(body, &step["post"])?,
        dtype,
    };
    add(graph, name.to_owned(), finish)
}

fn maps(x: Expr, names: &Json) -> Result<Expr, String> {
    list(names).iter().try_fold(x, |x, name| {
        let name = match name.as_str().unwrap_or_default() {
            "square" => "sq",
            name => name,
        };
        let f = ScalarFn::from_name(name, 1).ok_or(format!("no function {name}"))?;
        Ok(Expr::call(f, [x]))
    })
}

fn join(name: &str, terms: Vec<Expr>) -> Result<Expr, String> {
    let difference = |a, b| Expr::call(ScalarFn::SUB, [a, b]);
    let pair: Box<dyn Fn(Expr, Expr) -> Expr> = match name {
        "sqdiff" => Box::new(move |a, b| Expr::call(ScalarFn::SQ, [difference(a, b)])),
        "absdiff" => Box::new(move |a, b| Expr::call(ScalarFn::ABS, [difference(a, b)])),
        "expdiff" => Box::new(move |a, b| Expr::call(ScalarFn::EXP, [difference(a, b)])),
        "none" if terms.len() == 1 => Box::new(|a, _| a),
        name => {
            let f = ScalarFn::from_name(name, 2).ok_or(format!("no join {name}"))?;
            Box::new(move |a, b| Expr::call(f, [a, b]))
        }
    };
    terms.into_iter().reduce(pair).ok_or("no operands".into())
}

/// Element type of a case; f64 where it says none.
pub fn dtype(case: &Json) -> Result<DType, String> {
    let name = case["dtype"].as_str().unwrap_or("f64");
    DType::from_name(name).ok_or(format!("no element type {name}"))
}
