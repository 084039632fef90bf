// A wrong rank or element type at the Rust seam is an ordinary type error.
use eindecomp::{Dim, Graph, ein};

ein! {
    fn double<dim N>(x: f32[N]) -> f32[N] {
        let y[n] = 2.0 * x[n];
        y
    }
}

fn main() {
    let graph = Graph::new();
    let matrix = graph.input::<f32, 2>("matrix", [Dim::from(2), Dim::from(3)]);
    let integers = graph.input::<i32, 1>("integers", [Dim::from(2)]);
    double(matrix);
    double(integers);
}
