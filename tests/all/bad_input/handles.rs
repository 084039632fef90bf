//! Blocks composed by mistake.

use eindecomp::{CompositionErrors, Dim, Graph, Tensor, ein};

use crate::bad_input::within;

ein! {
    /// A product.
    pub fn times<dim M, dim K, dim N>(a: f32[M, K], b: f32[K, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[k, n];
        c
    }
    /// Two at once.
    pub struct Pair<dim D> { one: f32[D], two: f32[D] }
    /// Their sum.
    pub fn plus<dim D>(p: Pair<D>) -> f32[D] {
        let y[d] = p.one[d] + p.two[d];
        y
    }
    /// Pairs.
    pub fn pairs<dim D>(x: f32[D]) -> f32[D / 2, 2] where D % 2 == 0 {
        let y[i, j in 2] = x[(i, j)];
        y
    }
}

fn input<'g, const RANK: usize>(
    g: &'g Graph,
    name: &str,
    shape: [i64; RANK],
) -> Tensor<'g, f32, RANK> {
    g.input(name, shape.map(Dim::from))
}

fn errors(graph: Graph) -> CompositionErrors {
    let errors = graph.finish().expect_err("this graph has mistakes");
    for error in &errors.0 {
        assert_eq!(error.location.file(), file!(), "{error}");
        assert!(!error.message.is_empty());
    }
    errors
}

#[test]
fn extents_that_do_not_fit_are_recorded_and_poison() {
    within(|| {
        let g = Graph::new();
        let (a, b) = (input(&g, "a", [2, 3]), input(&g, "b", [4, 5]));
        let bad = times(a, b);
        // poisoned: no further mistake is recorded
        let worse = times(bad, times(b, bad));
        g.output("y", worse);
        let odd = pairs(input(&g, "odd", [7]));
        g.output("z", odd);
        let pair = PairTensors {
            one: input(&g, "one", [2]),
            two: input(&g, "two", [3]),
        };
        plus(pair);
        let found = errors(g);
        assert_eq!(found.0.len(), 3, "{found}");
    });
}

#[test]
fn handles_of_two_graphs_do_not_mix() {
    within(|| {
        let (g, h) = (Graph::new(), Graph::new());
        let (a, b) = (input(&g, "a", [2, 2]), input(&h, "b", [2, 2]));
        let c = times(a, b);
        g.output("c", c);
        // a result of another graph, which happens to have such a node here
        g.output("b", b);
        h.output("a", a);
        h.output("b", b);
        let pair = PairTensors {
            one: input(&g, "one", [2]),
            two: input(&h, "two", [2]),
        };
        plus(pair);
        let found: Vec<_> = [g, h]
            .into_iter()
            .flat_map(|g| errors(g).0)
            .map(|e| e.message)
            .collect();
        let foreign = found.iter().filter(|m| m.contains("another graph")).count();
        assert_eq!((found.len(), foreign), (4, 4), "{found:?}");
    });
}

#[test]
fn names_are_given_once_and_results_are_needed() {
    within(|| {
        let g = Graph::new();
        let (a, again) = (input(&g, "a", [2, 2]), input(&g, "a", [2, 2]));
        g.output("y", a);
        g.output("y", a);
        g.output("z", again);
        assert_eq!(errors(g).0.len(), 2);
        assert_eq!(errors(Graph::new()).0.len(), 1);
    });
}
