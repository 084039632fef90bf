// What cannot be read of a signature is an error; nothing that uses the block is one in turn.
use eindecomp::{Dim, Graph, ein};

ein! {
    fn colon<dim N>(x: f32[N], y f32[N]) -> f32[N] {
        let z[n] = x[n] + y[n];
        z
    }

    fn arrow<dim N>(x: f32[N]) {
        x
    }

    fn generics<dim N dim M>(x: f32[N, M]) -> f32[N, M] {
        x
    }

    fn dtype<dim N>(x: f33[N], #[host] k: f32) -> f32[N] {
        x
    }

    fn clause<dim N>(x: f32[N]) -> f32[N] where N >> 1 {
        x
    }

    fn caller<dim N>(x: f32[N]) -> f32[N] {
        let y = colon(x, x);
        let z = clause(y);
        z
    }
}

fn main() {
    let graph = Graph::new();
    let x = graph.input::<f32, 1>("x", [Dim::from(2)]);
    let matrix = graph.input::<f32, 2>("matrix", [Dim::from(2), Dim::from(2)]);
    graph.output("colon", colon(x, x));
    graph.output("arrow", clause(arrow(x)));
    graph.output("generics", generics(matrix));
    graph.output("dtype", dtype(x, 1.0));
    graph.output("caller", caller(x));
    let _ = clause::graph();
}
