use eindecomp::ein;

ein! {
    fn first<dim N>(x: f32[N]) -> f32[N] {
        let y[n] = x[n] +;
        y
    }

    fn second<dim N>(x: f32[N]) -> f33[N] {
        x
    }
}

// Neither item is missed: the errors above are the only ones.
fn main() {
    let graph = eindecomp::Graph::new();
    let x = graph.input("x", [eindecomp::Dim::from(2)]);
    graph.output("y", first(first(x)));
    graph.output("z", first(second(x)));
    let _ = first::graph();
}
