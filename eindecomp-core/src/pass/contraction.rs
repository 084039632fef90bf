//! Orders n-ary products: `sum` over a product of three or more operands becomes a tree of
//! products of two, each with its own sum.
//!
//! A label that only one operand has is summed first; the tree is that of `order`. One that does not
//! cost less than the multiplications of the statement as it is (an element-wise product of
//! three tensors) is not taken. Statements with pins, guards, gathers or a filter stay.

use super::order::{Network, Set, Tree};
use super::{Pass, Rebuild, Rewrite};
use crate::ein::access::affine;
use crate::ein::{Agg, DType, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn};
use crate::graph::{BoundGraph, GraphError, MAX_ELEMENTS, NodeId};

/// The pass of this module.
pub struct ContractionOrder;

impl Pass for ContractionOrder {
    fn name(&self) -> &'static str {
        "contraction_order"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        Rebuild::each(graph, |rebuild, id| {
            let Some((tree, product)) = Product::of(graph, id).and_then(|p| Some((p.order()?, p)))
            else {
                return Ok(None);
            };
            let (name, factors) = (&graph.node(id).name, product.factors.len());
            product.emit(&tree, rebuild)?;
            Ok(Some(format!("`{name}` ordered, of {factors} factors")))
        })
    }
}

/// A statement that is a sum of a product.
struct Product<'a> {
    id: NodeId,
    e: &'a EinSum,
    extents: &'a [usize],
    /// Element type of sums.
    acc: DType,
    factors: Vec<Factor<'a>>,
    /// Labels of the output.
    out: Set,
}

struct Factor<'a> {
    operand: &'a Operand,
    dtype: DType,
    labels: Set,
}

fn labels_of(set: &Set) -> impl Iterator<Item = LabelId> {
    set.ones().map(|l| LabelId(l as u16))
}

/// Of a statement with as many labels as `of`.
fn set_of(labels: impl IntoIterator<Item = LabelId>, of: usize) -> Set {
    let mut set = Set::with_capacity(of);
    labels.into_iter().for_each(|l| set.insert(l.at()));
    set
}

fn leaves(body: &Expr, out: &mut Vec<usize>) -> Option<()> {
    match body {
        Expr::Operand(n) => out.push(*n),
        Expr::Call(ScalarFn::MUL, args) => {
            args.iter().try_for_each(|a| leaves(a, out))?;
        }
        _ => return None,
    }
    Some(())
}

impl<'a> Product<'a> {
    fn of(graph: &'a BoundGraph, id: NodeId) -> Option<Product<'a>> {
        let node = graph.node(id);
        let e = node.einsum()?;
        let reduce = e.reduce.as_ref()?;
        let fits = reduce.agg == Agg::SUM && reduce.filter.is_none() && node.pins.is_empty();
        let mut operands = Vec::new();
        leaves(&e.body, &mut operands).filter(|_| fits)?;
        if operands.len() < 3 {
            return None;
        }
        let factor = |n: usize| {
            let operand = &e.operands[n];
            let mut labels = Set::with_capacity(e.labels.len());
            for index in &operand.index {
                let terms = affine(index)?.0;
                terms.into_iter().for_each(|t| labels.insert(t.0.at()));
            }
            let dtype = graph.node(operand.node).dtype;
            operand.otherwise.is_none().then_some(Factor {
                operand,
                dtype,
                labels,
            })
        };
        let factors: Vec<Factor> = operands.into_iter().map(factor).collect::<Option<_>>()?;
        let acc = reduce.acc;
        let common = factors[1..]
            .iter()
            .try_fold(factors[0].dtype, |a, f| a.common(f.dtype))?;
        // Intermediates are stored as `acc`: integers must wrap there as they do in the body.
        let same = common == acc || (common.is_float() && acc.is_float());
        let fits = same && factors.iter().all(|f| f.dtype.common(acc).is_some());
        fits.then(|| Product {
            id,
            e,
            extents: graph.label_extents(id),
            acc,
            factors,
            out: set_of(e.out.iter().flatten().copied(), e.labels.len()),
        })
    }

    /// The tree of least cost, if it costs less than the statement as it is.
    fn order(&self) -> Option<Tree> {
        let network = Network {
            factors: self.factors.iter().map(|f| f.labels.clone()).collect(),
            out: self.out.clone(),
            extents: self.extents.iter().map(|&n| n as f64).collect(),
        };
        let mut all = self.out.clone();
        all.insert_range(..);
        let direct = network.points([&all]) * (self.factors.len() - 1) as f64;
        let (tree, cost) = network.order();
        // Tensors that cannot be are no better than the statement, which is refused by its name.
        let fits = cost.points < direct && cost.elements <= MAX_ELEMENTS as f64;
        fits.then_some(tree)
    }

    fn emit(&self, tree: &Tree, rebuild: &mut Rebuild) -> Result<(), GraphError> {
        let Tree::Pair(sides) = tree else {
            return rebuild.copy(self.id);
        };
        let mut count = 0;
        let mut term = |side: &Tree, other: &Tree| {
            let outside = &self.out | &self.labels(other);
            self.term(side, &outside, rebuild, &mut count)
        };
        let (left, right) = &**sides;
        let terms = [term(left, right)?, term(right, left)?];
        // Labels that no factor has, if there are any, are those of the last statement.
        let mut reduced = self.out.clone();
        reduced.insert_range(..);
        for f in &self.factors {
            reduced.difference_with(&f.labels);
        }
        terms.iter().for_each(|t| reduced.union_with(&t.labels));
        reduced.difference_with(&self.out);
        let e = self.statement(&terms, self.e.out.clone(), &reduced, self.e.dtype);
        let name = rebuild.old.node(self.id).name.clone();
        rebuild.map[self.id.at()] = Some(rebuild.builder()?.einsum(name, e, Vec::new())?);
        Ok(())
    }

    /// Labels of the factors of a tree.
    fn labels(&self, tree: &Tree) -> Set {
        match tree {
            Tree::Leaf(n) => self.factors[*n].labels.clone(),
            Tree::Pair(sides) => &self.labels(&sides.0) | &self.labels(&sides.1),
        }
    }

    /// The product of a tree's factors, as a tensor with the labels that are in `outside` too.
    fn term(
        &self,
        tree: &Tree,
        outside: &Set,
        rebuild: &mut Rebuild,
        count: &mut usize,
    ) -> Result<Term, GraphError> {
        let terms = match tree {
            Tree::Leaf(n) => {
                let factor = &self.factors[*n];
                let node = rebuild.node(factor.operand.node);
                vec![Term {
                    operand: Operand {
                        node,
                        ..factor.operand.clone()
                    },
                    dtype: factor.dtype,
                    labels: factor.labels.clone(),
                }]
            }
            Tree::Pair(sides) => {
                let (a, b) = &**sides;
                vec![
                    self.term(a, &(outside | &self.labels(b)), rebuild, count)?,
                    self.term(b, &(outside | &self.labels(a)), rebuild, count)?,
                ]
            }
        };
        let mut kept = self.labels(tree);
        kept.intersect_with(outside);
        let mut reduced = Set::with_capacity(kept.len());
        terms.iter().for_each(|t| reduced.union_with(&t.labels));
        reduced.difference_with(outside);
        if matches!(tree, Tree::Leaf(_)) && reduced.is_clear() {
            return Ok(terms.into_iter().next().expect("a leaf is one term"));
        }
        let out = labels_of(&kept).map(|l| vec![l]).collect();
        let e = self.statement(&terms, out, &reduced, self.acc);
        *count += 1;
        let name = format!("{}.{count}", rebuild.old.node(self.id).name);
        let node = rebuild.builder()?.einsum(name, e, Vec::new())?;
        Ok(Term {
            operand: Operand {
                node,
                index: labels_of(&kept).map(Expr::Index).collect(),
                otherwise: None,
            },
            dtype: self.acc,
            labels: kept,
        })
    }

    fn statement(
        &self,
        terms: &[Term],
        out: Vec<Vec<LabelId>>,
        reduced: &Set,
        dtype: DType,
    ) -> EinSum {
        let order: Vec<LabelId> = out
            .iter()
            .flatten()
            .copied()
            .chain(labels_of(reduced))
            .collect();
        let place = |l: LabelId| {
            let at = order.iter().position(|&o| o == l);
            LabelId(at.expect("every label of a term is kept or reduced") as u16)
        };
        let renamed = |x: &Expr| {
            x.clone().map(&mut |x| match x {
                Expr::Index(l) => Expr::Index(place(l)),
                x => x,
            })
        };
        let operand = |t: &Term| Operand {
            node: t.operand.node,
            index: t.operand.index.iter().map(renamed).collect(),
            otherwise: None,
        };
        let factor = |(n, t): (usize, &Term)| match reduced.is_clear() && t.dtype != self.acc {
            // A sum takes its terms in its own type; a bare product is told to.
            true => Expr::Cast(self.acc, Box::new(Expr::Operand(n))),
            false => Expr::Operand(n),
        };
        let factors = terms.iter().enumerate().map(factor);
        let spec = EinSumSpec {
            labels: order
                .iter()
                .map(|l| Label::clone(&self.e.labels[l.at()]))
                .collect(),
            out: out
                .iter()
                .map(|a| a.iter().map(|&l| place(l)).collect())
                .collect(),
            reduce: (!reduced.is_clear()).then(|| Reduce {
                agg: Agg::SUM.into(),
                labels: labels_of(reduced).map(place).collect(),
                acc: self.acc,
                filter: None,
            }),
            operands: terms.iter().map(operand).collect(),
            body: factors
                .reduce(|a, b| Expr::call(ScalarFn::MUL, [a, b]))
                .expect("at least one term"),
            dtype,
        };
        EinSum::new(spec).expect("labels are listed as output, then reduced")
    }
}

/// An operand in the labels of the whole statement.
struct Term {
    operand: Operand,
    dtype: DType,
    labels: Set,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::Pipeline;
    use super::*;
    use crate::ein::Dim;
    use crate::graph::{EinGraph, GraphBuilder, Role};
    use crate::plan::Cluster;
    use crate::plan::planner::{PlanError, PlanOptions, plan};
    use crate::reference::{RefTensor, run};

    fn ordered(graph: &EinGraph) -> BoundGraph {
        let bound = graph.bind(&BTreeMap::new()).unwrap();
        Pipeline::new(vec![Box::new(ContractionOrder)])
            .run(bound)
            .unwrap()
            .0
    }

    fn einsum(text: &str, extent: impl Fn(char) -> i64) -> EinGraph {
        let mut g = GraphBuilder::new();
        let terms = text.split("->").next().unwrap().split(',');
        let input = |(n, labels): (usize, &str)| {
            let shape = labels.chars().map(|c| Dim::from(extent(c))).collect();
            g.input(format!("x{n}"), Role::Data, DType::F64, shape)
                .unwrap()
        };
        let ids: Vec<NodeId> = terms.enumerate().map(input).collect();
        let y = g.einsum_str(text, &ids).unwrap();
        g.output("y", y).unwrap();
        g.finish().unwrap()
    }

    fn statements(text: &str, extent: impl Fn(char) -> i64) -> Vec<String> {
        let text = ordered(&einsum(text, extent)).to_string();
        let line = |l: &str| l.split(" = ").nth(1).map(str::to_owned);
        text.lines()
            .filter(|l| l.contains("sum["))
            .filter_map(line)
            .collect()
    }

    #[test]
    fn a_chain_is_taken_from_its_thin_end() {
        let thin_right = statements("ab,bc,cd->ad", |c| if c == 'd' { 1 } else { 10 });
        assert_eq!(
            thin_right,
            [
                "sum[c=10; f64] %1[b, c] * %2[c, d] -> f64[d=1, b=10]",
                "sum[b=10; f64] %0[a, b] * %3[d, b] -> f64[a=10, d=1]",
            ]
        );
    }

    #[test]
    fn own_labels_are_summed_first() {
        let text = statements("ab,bc,cd->a", |_| 4);
        assert_eq!(
            text,
            [
                "sum[d=4; f64] %2[c, d] -> f64[c=4]",
                "sum[c=4; f64] %1[b, c] * %3[c] -> f64[b=4]",
                "sum[b=4; f64] %0[a, b] * %4[b] -> f64[a=4]",
            ]
        );
    }

    #[test]
    fn what_gains_nothing_stays() {
        assert_eq!(statements("ab,ab,ab->a", |_| 4).len(), 1);
        assert_eq!(statements("ab,bc->ac", |_| 4).len(), 1);
        assert_eq!(statements("ab,bc,cd->ad", |_| 0).len(), 1);
    }

    #[test]
    fn affine_reads_and_merged_axes_are_kept() {
        let graph = EinGraph::parse(
            r#"eingraph {
                %0 "x" = input f32[9]
                %1 "w" = input f32[3, 4]
                %2 "v" = input f32[4, 5]
                %3 "y" = sum[u=3, k=4; f32] %0[2 * i + u] * %1[u, k] * %2[k, j] -> f32[(i=4, j=5)]
                output "y" = %3
            }"#,
        );
        let text = ordered(&graph.unwrap()).to_string();
        let made: Vec<&str> = text
            .lines()
            .filter(|l| l.contains("sum["))
            .map(str::trim)
            .collect();
        assert_eq!(
            made,
            [
                r#"%3 "y.1" = sum[k=4; f32] %1[u, k] * %2[k, j] -> f32[j=5, u=3]"#,
                r#"%4 "y" = sum[u=3; f32] %0[2 * i + u] * %3[j, u] -> f32[(i=4, j=5)]"#,
            ]
        );
    }

    proptest! {
        #[test]
        fn values_are_kept(
            operands in prop::collection::vec("[a-e]{0,3}", 3..6),
            out in "[a-e]{0,3}",
            sizes in prop::collection::vec(0..4i64, 5),
            data in prop::collection::vec(-4..5i64, 97),
        ) {
            let mut kept: Vec<char> = out.chars().collect();
            kept.sort();
            kept.dedup();
            kept.retain(|&c| operands.iter().any(|o| o.contains(c)));
            let text = format!("{}->{}", operands.join(","), kept.iter().collect::<String>());
            let graph = einsum(&text, |c| sizes[c as usize - 'a' as usize]);
            let before = graph.bind(&BTreeMap::new()).unwrap();
            let mut inputs = BTreeMap::new();
            for (n, (id, _)) in before.ids().filter(|(_, n)| n.role().is_some()).enumerate() {
                let values: Vec<i64> = data.iter().cycle().skip(n * 7).take(before.elements(id)).copied().collect();
                let tensor = RefTensor::from_i64(DType::F64, before.shape(id).to_vec(), &values);
                inputs.insert(Arc::from(format!("x{n}")), tensor.unwrap());
            }
            let after = ordered(&graph);
            let (want, got) = (run(&before, &inputs).unwrap(), run(&after, &inputs).unwrap());
            prop_assert_eq!(want[0].to_f64(), got[0].to_f64(), "{}\n{}", text, after.graph());
        }
    }

    /// More labels than a word has bits, and more factors than are ordered exactly.
    #[test]
    fn a_long_chain_is_ordered_and_keeps_its_value() {
        let labels: Vec<char> = ('一'..).take(201).collect();
        let terms: Vec<String> = labels.windows(2).map(|w| w.iter().collect()).collect();
        let text = format!("{}->{}{}", terms.join(","), labels[0], labels[200]);
        let graph = einsum(&text, |_| 2);
        assert_eq!(statements(&text, |_| 2).len(), 199);
        // Each a swap of two coordinates: an even number of them is nothing.
        let swap = RefTensor::from_i64(DType::F64, vec![2, 2], &[0, 1, 1, 0]).unwrap();
        let inputs = (0..200)
            .map(|n| (Arc::from(format!("x{n}")), swap.clone()))
            .collect();
        let got = run(&ordered(&graph), &inputs).unwrap();
        assert_eq!(got[0].to_f64(), [1.0, 0.0, 0.0, 1.0]);
    }

    /// All pairs of 40 factors share a label: any order makes tensors that nobody can store.
    #[test]
    fn what_cannot_be_stored_stays_and_is_refused_by_its_name() {
        let label = |a: usize, b: usize| {
            char::from_u32(0x4e00 + (40 * a.min(b) + a.max(b)) as u32).unwrap()
        };
        let others = |a: usize| (0..40).filter(move |&b| b != a);
        let term = |a: usize| others(a).map(|b| label(a, b)).collect::<String>();
        let text = format!("{}->", (0..40).map(term).collect::<Vec<_>>().join(","));
        let graph = einsum(&text, |_| 2).bind(&BTreeMap::new()).unwrap();
        let graph = Pipeline::default().run(graph).unwrap().0;
        assert_eq!(graph.nodes().len(), 41);
        let refused = plan(&graph, &Cluster::cpus(4), &PlanOptions::default());
        let tensor = Arc::from(&*text);
        assert_eq!(
            refused,
            Err(PlanError::Points {
                tensor,
                points: u128::MAX
            })
        );
    }
}
