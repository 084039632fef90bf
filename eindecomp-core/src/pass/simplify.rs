//! Algebraic identities inside statements, and scalars that follow from dims alone.
//!
//! Exact, bits included: `x * 1`, `x / 1`, `x - 0`, `-(-x)`, `!(!x)`, conversions to the
//! type that a value has, integer `x + 0`, logic and `if` with a known condition. `x + 0.0` stays: it
//! makes 0 of −0. Scalar functions of constants are computed once, in f64, and rounded to their type:
//! a kernel's own value may differ from that by the error of its function (2 units in the last place
//! of f32); integers are exact.

use super::rebuild::prune;
use super::{Pass, Rebuild, Rewrite};
use crate::ein::{DType, Expr, ScalarFn, Value};
use crate::graph::{BoundGraph, GraphError};

/// The pass of this module.
pub struct Identities;

impl Pass for Identities {
    fn name(&self) -> &'static str {
        "identities"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        Rebuild::each(graph, |rebuild, id| {
            let node = graph.node(id);
            // What a store is made of is what shows that it is one.
            let Some(e) = node.einsum().filter(|_| node.store.is_none()) else {
                return Ok(None);
            };
            let dtypes = |n: usize| e.operands.get(n).map(|o| graph.node(o.node).dtype);
            let simpler = |x: Expr| x.map(&mut |x| simplify(x, &dtypes));
            let all = Expr::Const(Value::Bool(true), DType::Bool);
            let filter = e.reduce.as_ref().and_then(|r| r.filter.as_ref());
            let simpler_filter = filter.cloned().map(simpler).filter(|f| *f != all);
            let body = simpler(e.body.clone());
            if body == e.body && simpler_filter.as_ref() == filter {
                return Ok(None);
            }
            let mut spec = e.clone().into_spec();
            spec.body = body;
            if let Some(reduce) = &mut spec.reduce {
                reduce.filter = simpler_filter;
            }
            prune(&mut spec);
            rebuild.put(id, spec)?;
            Ok(Some(format!("`{}` simplified", node.name)))
        })
    }
}

/// An expression, whose parts are simple, as a simpler one of the same value and element type.
fn simplify(x: Expr, dtypes: &dyn Fn(usize) -> Option<DType>) -> Expr {
    let Some(dtype) = x.dtype(dtypes) else {
        return x;
    };
    if let Some(constant) = evaluate(&x, dtype) {
        return constant;
    }
    let is = |x: &Expr| x.dtype(dtypes) == Some(dtype);
    match x {
        Expr::Cast(_, inner) if is(&inner) => *inner,
        Expr::Call(f, mut args) => match identity(f, &args, dtype).filter(|&n| is(&args[n])) {
            Some(kept) => args.swap_remove(kept),
            None => match (f, &mut args[..]) {
                (ScalarFn::NEG | ScalarFn::NOT, [Expr::Call(g, inner)]) if *g == f => {
                    inner.swap_remove(0)
                }
                _ => Expr::Call(f, args),
            },
        },
        Expr::If(cond, yes, no) => match *cond {
            Expr::Const(Value::Bool(true), _) if is(&yes) => *yes,
            Expr::Const(Value::Bool(false), _) if is(&no) => *no,
            cond => Expr::If(Box::new(cond), yes, no),
        },
        other => other,
    }
}

/// The argument that the call is equal to, if there is one.
fn identity(f: ScalarFn, args: &[Expr], dtype: DType) -> Option<usize> {
    let [a, b] = args else {
        return None;
    };
    let is = |x: &Expr, value: f64| match x {
        Expr::Const(v, _) => Value::Float(v.as_f64()) == Value::Float(value),
        _ => false,
    };
    let (one, zero) = (|x: &Expr| is(x, 1.0), |x: &Expr| is(x, 0.0));
    match f {
        ScalarFn::MUL if one(b) => Some(0),
        ScalarFn::MUL if one(a) => Some(1),
        ScalarFn::DIV if one(b) => Some(0),
        ScalarFn::SUB if zero(b) => Some(0),
        ScalarFn::ADD if dtype.is_int() && zero(b) => Some(0),
        ScalarFn::ADD if dtype.is_int() && zero(a) => Some(1),
        ScalarFn::AND if one(b) => Some(0),
        ScalarFn::AND if one(a) => Some(1),
        ScalarFn::OR if zero(b) => Some(0),
        ScalarFn::OR if zero(a) => Some(1),
        // The right side is not read then.
        ScalarFn::AND if zero(a) => Some(0),
        ScalarFn::OR if one(a) => Some(0),
        _ => None,
    }
}

/// The value of an expression whose parts are constants.
fn evaluate(x: &Expr, dtype: DType) -> Option<Expr> {
    let constant = |x: &Expr| match x {
        Expr::Const(v, d) => Some(v.cast(*d)),
        Expr::Dim(d) => d.as_const().map(Value::Int),
        _ => None,
    };
    // bf16 and f16 are computed in f32, and rounded when they are stored.
    if dtype.is_float() && dtype.default_accumulator() != dtype {
        return None;
    }
    let value = match x {
        Expr::Cast(to, inner) => constant(inner)?.cast(*to),
        Expr::Call(f, args) => {
            let args: Vec<Value> = args.iter().map(constant).collect::<Option<_>>()?;
            f.eval(&args)?.cast(dtype)
        }
        _ => return None,
    };
    Some(Expr::Const(value, dtype))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{rewritten, stays};
    use super::*;

    fn statement(body: &str) -> String {
        format!(
            r#"eingraph {{
                slot $0 = 0.5
                %0 "x" = input f32[4]
                %1 "n" = input i32[4]
                %2 "b" = input bool[4]
                %3 "h" = input bf16[4]
                %4 "y" = {body}
                output "y" = %4
            }}"#
        )
    }

    fn simplified(body: &str) -> String {
        let (text, did) = rewritten(Identities, &statement(body));
        assert_eq!(did, ["`y` simplified"], "{body}");
        let line = text.lines().find(|l| l.contains("\"y\" =")).unwrap();
        line.trim().trim_start_matches("%4 \"y\" = ").to_owned()
    }

    #[test]
    fn identities_are_used() {
        for (body, simple) in [
            ("%0[i] * 1.0:f32 -> f32[i=4]", "%0[i] -> f32[i=4]"),
            ("1.0:f32 * %0[i] / 1.0:f32 -> f32[i=4]", "%0[i] -> f32[i=4]"),
            ("%0[i] - 0.0:f32 -> f32[i=4]", "%0[i] -> f32[i=4]"),
            ("-(-%0[i]) -> f32[i=4]", "%0[i] -> f32[i=4]"),
            ("!(!%2[i]) -> bool[i=4]", "%2[i] -> bool[i=4]"),
            ("%1[i] + 0:i32 -> i32[i=4]", "%1[i] -> i32[i=4]"),
            ("%0[i] as f32 -> f32[i=4]", "%0[i] -> f32[i=4]"),
            (
                "if(true:bool && %2[i], %0[i], 1.0:f32) -> f32[i=4]",
                "if(%2[i], %0[i], 1.0:f32) -> f32[i=4]",
            ),
            (
                "if(false:bool && %2[i], 0.0:f32, %0[i]) -> f32[i=4]",
                "%0[i] -> f32[i=4]",
            ),
            (
                "%0[i] * rsqrt({4} as f32) -> f32[i=4]",
                "%0[i] * 0.5:f32 -> f32[i=4]",
            ),
            (
                "%0[i] * (({4} as f32) / ({4} as f32)) -> f32[i=4]",
                "%0[i] -> f32[i=4]",
            ),
            (
                "sum[k=4; f32 where true:bool] %0[k] -> f32[]",
                "sum[k=4; f32] %0[k] -> f32[]",
            ),
        ] {
            assert_eq!(simplified(body), simple, "{body}");
        }
    }

    #[test]
    fn what_changes_bits_or_types_stays() {
        for body in [
            "%0[i] + 0.0:f32 -> f32[i=4]",
            "%0[i] - -0.0:f32 -> f32[i=4]",
            "%0[i] * 0.0:f32 -> f32[i=4]",
            "%0[i] * $0:f32 -> f32[i=4]",
            "%3[i] * 1.0:f32 -> f32[i=4]",
            "(%3[i] as f32) as f64 -> f64[i=4]",
            "%3[i] * rsqrt({4} as bf16) -> bf16[i=4]",
            "if(%2[i], %0[i], %0[i]) -> f32[i=4]",
        ] {
            stays(Identities, &statement(body));
        }
    }
}
