//! What computes the outputs of a case.

use std::collections::BTreeMap;

use eindecomp_core::pass::Pipeline;
use eindecomp_core::reference;

use crate::Program;
use crate::expect::Output;

/// Something that computes the outputs of a graph.
pub trait Runner {
    /// What reports call it.
    fn name(&self) -> String;

    /// The outputs, in order.
    ///
    /// # Errors
    /// The runner's own error, as text.
    fn run(&self, program: &Program) -> Result<Vec<Output>, String>;

    /// The outputs with the named labels cut in so many blocks in every statement that has them;
    /// `None` if the runner does not cut.
    fn run_partitioned(
        &self,
        _program: &Program,
        _parts: &BTreeMap<String, u32>,
    ) -> Option<Result<Vec<Output>, String>> {
        None
    }
}

/// Every runner, in the order of the report.
pub fn runners() -> Vec<Box<dyn Runner>> {
    vec![Box::new(Reference)]
}

/// The interpreter; products of many operands are ordered first where they would take too long.
struct Reference;

/// Points of an iteration space above which the reference needs an order.
const LARGE: f64 = 1e7;

impl Runner for Reference {
    fn name(&self) -> String {
        "reference".into()
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let mut graph = program.graph.clone();
        if program.space > LARGE {
            graph = Pipeline::default().run(graph).map_err(|e| e.to_string())?;
        }
        let outputs = reference::run(&graph, &program.inputs).map_err(|e| e.to_string())?;
        let output = |t: &reference::RefTensor| Output {
            shape: t.shape().to_vec(),
            data: t.to_f64(),
        };
        Ok(outputs.iter().map(output).collect())
    }
}
