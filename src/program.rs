//! A compiled graph: bound to dims, planned, lowered and ready to run; bound again when inputs of
//! other dims come.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eindecomp_core::graph::{BoundGraph, EinGraph, Role};
use eindecomp_core::pass::Passed;
use eindecomp_core::plan::Plan;
use eindecomp_core::task::TaskGraph;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::transport::agree::Action;
use eindecomp_runtime::{Element, RunError, Tensor, Trace, Traffic};
use ndarray::Dimension;

use crate::cache::PlanOrigin;
#[cfg(doc)]
use crate::machine;
use crate::model::{Array, Model, Pack, Tensors, Unpack, to_array};
use crate::profile::Profile;
use crate::progress::{Counted, Loading};
use crate::runner::Runner;
use crate::session::{Shared, bind};
use crate::watch::Watched;
use crate::weights::{StoredTensor, Weight};
use crate::{Error, fields, solve};

/// How many bindings a program keeps ready.
const BINDINGS: usize = 8;

/// How a binding came to its plan, and how long that took.
#[derive(Clone, Debug)]
pub struct CompileReport {
    /// Where the plan came from.
    pub origin: PlanOrigin,
    /// The dims that it was made for: the run's, or those of their buckets.
    pub dims: BTreeMap<Arc<str>, i64>,
    /// Passes, key and plan: found or made.
    pub planning: Duration,
    /// Verifying the tasks, kernels and memory.
    pub lowering: Duration,
    /// What passes did to the graph before it was planned.
    pub passes: Vec<Passed>,
    /// What was amiss with the plan cache, and cost no more than planning: an entry that was damaged and left out, a
    /// folder that cannot be written, buckets of a dim that is spelt otherwise. The same is told to `tracing`.
    pub warnings: Vec<String>,
}

/// A graph at one set of dims.
struct Binding {
    dims: BTreeMap<Arc<str>, i64>,
    graph: Arc<BoundGraph>,
    plan: Arc<Plan>,
    tasks: Arc<TaskGraph>,
    runner: Runner,
    report: CompileReport,
}

impl Binding {
    /// Gives the devices their weights, and shows how far that is.
    fn load(&mut self, weights: &BTreeMap<String, Weight>) -> Result<Traffic, RunError> {
        let loading = Loading::of(self.runner.weight_bytes());
        let counted = weights.iter().map(|(name, weight)| {
            let loading = &loading;
            (name.clone(), Counted { weight, loading })
        });
        self.runner.load(&counted.collect())
    }

    fn new(
        shared: &Shared,
        graph: &EinGraph,
        block: Option<&str>,
        dims: &BTreeMap<Arc<str>, i64>,
        fixed: &BTreeSet<Arc<str>>,
    ) -> Result<Binding, Error> {
        let start = Instant::now();
        shared.compiles(graph, dims)?;
        let (bound, passes) = bind(graph, dims, &shared.passes)?;
        let bound = Arc::new(bound);
        let slips = shared.slips(dims);
        let planned_at = shared.plan_at(graph, block, &bound, dims, fixed)?;
        let plan = planned_at.plan;
        let planned = Instant::now();
        let tasks = planned_at.tasks;
        verify(&bound, &plan, &tasks)?;
        let tasks = Arc::new(tasks);
        let runner = Runner::new(shared, bound.clone(), tasks.clone())?;
        let report = CompileReport {
            origin: planned_at.origin,
            dims: planned_at.dims,
            planning: planned - start,
            lowering: planned.elapsed(),
            passes,
            warnings: [slips, planned_at.warnings].concat(),
        };
        Ok(Binding {
            dims: dims.clone(),
            graph: bound,
            plan,
            tasks,
            runner,
            report,
        })
    }
}

/// A compiled graph whose tensors are given by name.
pub struct Program {
    shared: Arc<Shared>,
    graph: EinGraph,
    /// The path of its block, if it is one.
    block: Option<String>,
    dims: BTreeMap<Arc<str>, i64>,
    /// Dims that are in the shape of a weight or state: the same at every run.
    weight_dims: BTreeSet<Arc<str>>,
    weights: Option<BTreeMap<String, Weight>>,
    /// The dims of the binding that holds the states; before the first run they are zeros.
    stateful: Option<BTreeMap<Arc<str>, i64>>,
    /// Most recently used first; never empty.
    bindings: Vec<Binding>,
    trace: Trace,
    loaded: Traffic,
    watched: Watched,
}

impl Program {
    /// Of a graph, of whose tensors those called `watched` are kept at every run.
    pub(crate) fn new(
        shared: Arc<Shared>,
        graph: EinGraph,
        watched: &[Arc<str>],
        block: Option<String>,
        dims: BTreeMap<Arc<str>, i64>,
    ) -> Result<Program, Error> {
        let (graph, watched) = Watched::add(graph, watched)?;
        let weights = graph
            .nodes()
            .iter()
            .filter(|n| n.role().is_some_and(|r| r != Role::Data));
        let weight_dims = weights
            .flat_map(|n| n.shape.iter().flat_map(|d| d.symbols()))
            .collect();
        let bindings = vec![Binding::new(
            &shared,
            &graph,
            block.as_deref(),
            &dims,
            &weight_dims,
        )?];
        Ok(Program {
            shared,
            graph,
            block,
            dims,
            weight_dims,
            weights: None,
            stateful: None,
            bindings,
            trace: Trace::default(),
            loaded: Traffic::default(),
            watched,
        })
    }

    /// Gives the weights, which stay for every run, instead of those before.
    ///
    /// # Errors
    /// Every weight that is missing, unknown, or of a shape or element type other than declared, at
    /// the dims compiled for.
    pub fn load(&mut self, weights: BTreeMap<String, Tensor>) -> Result<(), Error> {
        self.load_all(
            weights
                .into_iter()
                .map(|(n, t)| (n, Weight::Given(t)))
                .collect(),
        )
    }

    /// The same of weights that are in files. Only the boxes that devices of this process keep are read; dims that
    /// come later read theirs.
    ///
    /// # Errors
    /// As [`Program::load`], and a file that cannot be read any more: then no run has weights until they are loaded
    /// again.
    pub fn load_stored(&mut self, weights: BTreeMap<String, StoredTensor>) -> Result<(), Error> {
        self.load_all(
            weights
                .into_iter()
                .map(|(n, t)| (n, Weight::Stored(t)))
                .collect(),
        )
    }

    fn load_all(&mut self, weights: BTreeMap<String, Weight>) -> Result<(), Error> {
        let stored = |role| role == Role::Weight;
        let solved = solve::dims(&self.graph, &weights, stored, &self.dims, |_| true);
        self.begin(Action::Load, &solved);
        solved?;
        let loaded = match self.bindings[0].load(&weights) {
            // some boxes are those of the new ones
            Err(unread @ RunError::Weight { .. }) => Err(unread),
            loaded => Ok(loaded?),
        };
        let states = self.states_elsewhere()?;
        // The others hold the weights before.
        self.bindings.truncate(1);
        self.weights = loaded.is_ok().then_some(weights);
        self.take_states(states)?;
        self.loaded = loaded?;
        Ok(())
    }

    /// The states as they are after the last run, by input name; at first they are zeros. All ranks of
    /// a job ask for them at once.
    ///
    /// # Errors
    /// A GPU that fails.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        self.begin(Action::State, &Ok(BTreeMap::new()));
        let holder = self.holder().unwrap_or(0);
        Ok(self.bindings[holder].runner.states()?)
    }

    /// Gives every state a value: those of `states`, zeros for the others.
    ///
    /// # Errors
    /// Every state that is unknown, or of a shape or element type other than declared, at the dims
    /// compiled for; then none is changed.
    pub fn set_state(&mut self, mut states: BTreeMap<String, Tensor>) -> Result<(), Error> {
        let binding = &mut self.bindings[0];
        for (id, node) in binding.graph.ids() {
            if node.role() == Some(Role::State) {
                let shape = binding.graph.shape(id).to_vec();
                let zeros = || Tensor::zeros(node.dtype, shape);
                states.entry(node.name.to_string()).or_insert_with(zeros);
            }
        }
        let kept = |role| role == Role::State;
        solve::dims(&self.graph, &states, kept, &self.dims, |_| true)?;
        binding.runner.set_states(&states)?;
        self.stateful = Some(binding.dims.clone());
        Ok(())
    }

    /// The binding that holds the states, if any does.
    fn holder(&self) -> Option<usize> {
        let dims = self.stateful.as_ref()?;
        self.bindings.iter().position(|b| b.dims == *dims)
    }

    /// The states, unless the binding in front holds them.
    fn states_elsewhere(&self) -> Result<Option<BTreeMap<String, Tensor>>, Error> {
        let Some(holder) = self.holder().filter(|at| *at > 0) else {
            return Ok(None);
        };
        let states = self.bindings[holder].runner.states()?;
        Ok((!states.is_empty()).then_some(states))
    }

    /// The binding in front holds the states from now on.
    fn take_states(&mut self, states: Option<BTreeMap<String, Tensor>>) -> Result<(), Error> {
        let binding = &mut self.bindings[0];
        if let Some(states) = states {
            binding.runner.set_states(&states)?;
        }
        self.stateful = Some(binding.dims.clone());
        Ok(())
    }

    /// Runs once: results by name. Inputs of other dims than before are bound again: planned, or
    /// found in the cache.
    ///
    /// # Errors
    /// Every input that is missing or does not fit its declaration; an index out of range in the data.
    /// After an error states are as before, unless the run had begun to store into them: then every
    /// run fails until [`Program::set_state`].
    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
    ) -> Result<BTreeMap<String, Tensor>, Error> {
        let runner = self.prepare(inputs)?;
        let (mut outputs, trace) = runner.run(inputs)?;
        self.trace = trace;
        self.watched.keep(&mut outputs);
        Ok(self.output_names().zip(outputs).collect())
    }

    /// The names of the results.
    fn output_names(&self) -> impl Iterator<Item = String> {
        let own = self.graph.outputs().iter().take(self.watched.own());
        own.map(|output| output.name.to_string())
    }

    /// The tensors that are watched as `name`, each with its path, as the last run left them: in the order of the
    /// program, one for each time that its statement was called or repeated; none before the first run.
    /// [`Session::watch`](crate::Session::watch) has them kept.
    ///
    /// # Errors
    /// A name that is not watched.
    pub fn watched(&self, name: &str) -> Result<Vec<(&str, &Tensor)>, Error> {
        self.watched.of(name)
    }

    /// Runs once into given tensors, in the order of the graph's outputs; they hold anything after an error.
    ///
    /// # Errors
    /// As [`Program::run`], and a tensor whose shape or element type is not the output's.
    pub fn run_into(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        outputs: &mut [Tensor],
    ) -> Result<(), Error> {
        let (own, watching) = (self.watched.own(), !self.watched.is_empty());
        let runner = self.prepare(inputs)?;
        if !watching {
            self.trace = runner.run_into(inputs, outputs)?;
            return Ok(());
        }
        if outputs.len() != own {
            let given = outputs.len();
            return Err(RunError::Outputs {
                expected: own,
                given,
            }
            .into());
        }
        // the tensors of the caller, and those that are watched behind them
        let mut all = runner.outputs();
        let swap = |all: &mut [Tensor], outputs: &mut [Tensor]| {
            all.iter_mut()
                .zip(outputs)
                .for_each(|(a, b)| std::mem::swap(a, b));
        };
        swap(&mut all, outputs);
        let done = runner.run_into(inputs, &mut all);
        swap(&mut all, outputs);
        self.trace = done?;
        self.watched.keep(&mut all);
        Ok(())
    }

    /// Runs once, and says where the time went. The run's results are dropped, its states are kept. Rates are
    /// beside the machine's peak if [`machine::calibrate`] measured it and keeps it in the
    /// folder of plans.
    ///
    /// # Errors
    /// As [`Program::run`]; figures of this machine that are there and cannot be read; [`Error::ProfileOnGpus`].
    pub fn profile(&mut self, inputs: &BTreeMap<String, Tensor>) -> Result<Profile, Error> {
        let workers = self.shared.workers.count();
        let measured = self.shared.measured()?.map(|machine| machine.rates);
        let Runner::Cpu(executor) = self.prepare(inputs)? else {
            return Err(Error::ProfileOnGpus);
        };
        let (_, trace) = executor.run(inputs, true)?;
        let graph = &self.bindings[0].graph;
        let Runner::Cpu(executor) = &self.bindings[0].runner else {
            return Err(Error::ProfileOnGpus);
        };
        let profile = Profile::new(executor, graph, &trace, workers, measured.as_ref());
        self.trace = trace;
        Ok(profile)
    }

    fn prepare(&mut self, inputs: &BTreeMap<String, Tensor>) -> Result<&mut Runner, Error> {
        let given = |role| role == Role::Data;
        let stays = |symbol: &str| self.weight_dims.contains(symbol);
        let solved = solve::dims(&self.graph, inputs, given, &self.dims, stays);
        self.begin(Action::Run, &solved);
        self.bind(solved?)?;
        Ok(&mut self.bindings[0].runner)
    }

    /// Tells the job what this rank is about to do, at which dims.
    fn begin(&self, action: Action, at: &Result<BTreeMap<Arc<str>, i64>, Error>) {
        if let Some(job) = &self.shared.job {
            job.begin(action, &at.as_ref().map_err(ToString::to_string));
        }
    }

    /// Puts the binding of `dims` in front, with the states.
    fn bind(&mut self, dims: BTreeMap<Arc<str>, i64>) -> Result<(), Error> {
        match self.bindings.iter().position(|b| b.dims == dims) {
            Some(at) => self.bindings[..=at].rotate_right(1),
            None => {
                let (block, fixed) = (self.block.as_deref(), &self.weight_dims);
                let mut binding = Binding::new(&self.shared, &self.graph, block, &dims, fixed)?;
                if let Some(weights) = &self.weights {
                    binding.load(weights)?;
                }
                self.bindings.insert(0, binding);
            }
        }
        let states = self.states_elsewhere()?;
        self.bindings.truncate(BINDINGS);
        self.take_states(states)
    }

    /// The plan in use, as a table for people.
    ///
    /// # Errors
    /// None for a plan that was compiled here.
    #[cfg(feature = "planner")]
    pub fn explain(&self) -> Result<crate::Explain, Error> {
        let b = &self.bindings[0];
        let explain = crate::Explain::new(&b.graph, &b.plan, &b.tasks)?;
        Ok(explain
            .after(b.report.passes.clone())
            .warned(b.report.warnings.clone()))
    }

    /// The same with every named strategy beside the plan, each with what it would move or why it
    /// cannot be followed. Strategies are planned when this is called.
    ///
    /// # Errors
    /// None for a plan that was compiled here.
    #[cfg(feature = "planner")]
    pub fn compare(&self) -> Result<crate::Explain, Error> {
        let b = &self.bindings[0];
        Ok(self
            .explain()?
            .beside(&b.graph, &self.shared.cluster, &b.plan)?)
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        &self.bindings[0].plan
    }

    /// The task graph in use.
    pub fn tasks(&self) -> &TaskGraph {
        &self.bindings[0].tasks
    }

    /// Where the plan in use came from, and the times of compilation.
    pub fn report(&self) -> &CompileReport {
        &self.bindings[0].report
    }

    /// Counters and time of the last run.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Counters of the loading of the weights.
    pub fn load_traffic(&self) -> &Traffic {
        &self.loaded
    }

    /// The graph, dims symbolic.
    pub fn graph(&self) -> &EinGraph {
        &self.graph
    }
}

/// A compiled block, typed.
pub struct Compiled<M> {
    program: Program,
    model: PhantomData<fn() -> M>,
}

impl<M: Model> Compiled<M> {
    pub(crate) fn new(program: Program) -> Compiled<M> {
        Compiled {
            program,
            model: PhantomData,
        }
    }

    /// Gives the weights, which stay for every run.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load(mut self, weights: M::Weights) -> Result<Compiled<M>, Error> {
        let mut tensors = Tensors::new();
        weights.pack(&mut tensors);
        self.program.load(tensors.into_map())?;
        Ok(self)
    }

    /// Reads the weights from a safetensors file: of each only the boxes that devices of this process keep, straight
    /// to where these keep them.
    ///
    /// # Errors
    /// As `Weights::from_safetensors` and [`Program::load_stored`].
    pub fn load_file(mut self, path: impl AsRef<Path>) -> Result<Compiled<M>, Error>
    where
        M::Weights: Default,
    {
        self.program
            .load_stored(fields::stored::<M::Weights>(path)?)?;
        Ok(self)
    }

    /// The states as they are after the last run; at first they are zeros.
    ///
    /// # Errors
    /// As [`Program::state`].
    pub fn state(&self) -> Result<M::State, Error> {
        M::State::unpack(&mut self.program.state()?.into_iter().collect())
    }

    /// Gives every state a value.
    ///
    /// # Errors
    /// As [`Program::set_state`].
    pub fn set_state(&mut self, state: M::State) -> Result<(), Error> {
        let mut tensors = Tensors::new();
        state.pack(&mut tensors);
        self.program.set_state(tensors.into_map())
    }

    /// Makes every state zeros again.
    ///
    /// # Errors
    /// None: zeros fit.
    pub fn reset_state(&mut self) -> Result<(), Error> {
        self.program.set_state(BTreeMap::new())
    }

    /// Runs once.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run(&mut self, inputs: M::Inputs) -> Result<M::Outputs, Error> {
        let mut tensors = Tensors::new();
        inputs.pack(&mut tensors);
        let outputs = self.program.run(tensors.as_map())?;
        M::Outputs::unpack(&mut outputs.into_iter().collect())
    }

    /// Runs once into given outputs, whose arrays are used again.
    ///
    /// # Errors
    /// As [`Program::run_into`].
    pub fn run_into(&mut self, inputs: M::Inputs, outputs: &mut M::Outputs) -> Result<(), Error> {
        let mut tensors = Tensors::new();
        inputs.pack(&mut tensors);
        let mut results = Tensors::new();
        std::mem::take(outputs).pack(&mut results);
        let mut by_name = results.into_map();
        let names: Vec<String> = self.program.output_names().collect();
        let mut given = Vec::new();
        for name in &names {
            let missing = || Error::MissingTensor {
                name: name.clone(),
                near: None,
            };
            given.push(by_name.remove(name).ok_or_else(missing)?);
        }
        let done = self.program.run_into(tensors.as_map(), &mut given);
        // The caller has the arrays back also after an error.
        *outputs = M::Outputs::unpack(&mut names.into_iter().zip(given).collect())?;
        done
    }

    /// The tensors that are watched as `name`, each with its path, as the last run left them ([`Program::watched`]).
    ///
    /// # Errors
    /// As [`Program::watched`], and tensors of another element type or rank.
    pub fn watched<D: Element, const RANK: usize>(
        &self,
        name: &str,
    ) -> Result<Vec<(String, Array<D, RANK>)>, Error>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        let tensors = self.program.watched(name)?.into_iter();
        let array = |(path, tensor): (&str, &Tensor)| {
            Ok((path.to_string(), to_array(path, tensor.clone())?))
        };
        tensors.map(array).collect()
    }

    /// The untyped program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The plan in use, as a table for people.
    ///
    /// # Errors
    /// As [`Program::explain`].
    #[cfg(feature = "planner")]
    pub fn explain(&self) -> Result<crate::Explain, Error> {
        self.program.explain()
    }

    /// The same with every named strategy beside the plan.
    ///
    /// # Errors
    /// As [`Program::compare`].
    #[cfg(feature = "planner")]
    pub fn compare(&self) -> Result<crate::Explain, Error> {
        self.program.compare()
    }

    /// Runs once, and says where the time went.
    ///
    /// # Errors
    /// As [`Program::profile`].
    pub fn profile(&mut self, inputs: M::Inputs) -> Result<Profile, Error> {
        let mut tensors = Tensors::new();
        inputs.pack(&mut tensors);
        self.program.profile(tensors.as_map())
    }

    /// Counters and time of the last run.
    pub fn trace(&self) -> &Trace {
        self.program.trace()
    }
}
