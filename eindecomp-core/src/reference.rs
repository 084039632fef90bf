//! Reference interpreter: the naive meaning of a [`BoundGraph`], the oracle of every test.
//!
//! Floats are computed and kept in f64. An `f32` tensor keeps f64 precision, but overflows to
//! ±inf where f32 does; `bf16` and `f16` are rounded at each store and cast. Integers wrap to
//! their element type. `if`, `&&` and `||` are lazy: what is not needed is not read.

mod fold;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::{DType, EinSum, Expr, ScalarFn, Value};
use crate::graph::{BoundGraph, Op};
use fold::{Fold, fold};

mod opaque;

/// A dense row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTensor {
    shape: Vec<usize>,
    dtype: DType,
    data: Vec<Value>,
}

/// Why the interpreter has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefError {
    /// As many values are given as the shape has elements, or it is no tensor.
    #[error("a tensor of shape {shape:?} has {expected} elements, but {given} are given")]
    Length {
        /// Its shape.
        shape: Vec<usize>,
        /// Elements of that shape.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// An input of the graph without a value.
    #[error("input `{0}` is not given")]
    MissingInput(Arc<str>),
    /// A value for an input that the graph does not have.
    #[error("the graph has no input `{0}`")]
    UnknownInput(Arc<str>),
    /// An input of another shape.
    #[error("input `{name}` has shape {given:?}, but {expected:?} is needed")]
    Shape {
        /// The input.
        name: Arc<str>,
        /// The graph's shape.
        expected: Vec<usize>,
        /// The value's shape.
        given: Vec<usize>,
    },
    /// An input of another element type.
    #[error("input `{name}` is {given}, but {expected} is needed")]
    DType {
        /// The input.
        name: Arc<str>,
        /// The graph's element type.
        expected: DType,
        /// The value's.
        given: DType,
    },
    /// A read outside a tensor at an access without `else`.
    #[error("`{statement}` reads axis {axis} of `{tensor}` at {value}, but its extent is {extent}")]
    OutOfRange {
        /// The statement.
        statement: Arc<str>,
        /// The tensor it reads.
        tensor: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The index.
        value: i64,
        /// The axis' extent.
        extent: usize,
    },
    /// An opaque kernel without its function.
    #[error("`{statement}`: there is no kernel `{kernel}`")]
    NoKernel {
        /// The statement.
        statement: Arc<str>,
        /// The kernel.
        kernel: Arc<str>,
    },
    /// An opaque kernel that failed.
    #[error("`{statement}`: kernel `{kernel}`: {message}")]
    Kernel {
        /// The statement.
        statement: Arc<str>,
        /// The kernel.
        kernel: Arc<str>,
        /// What it says.
        message: String,
    },
    /// A store outside the state.
    #[error("`{statement}` writes axis {axis} of `{state}` at {value}, but its extent is {extent}")]
    StoreOutOfRange {
        /// The statement.
        statement: Arc<str>,
        /// The state.
        state: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The position.
        value: i64,
        /// The axis' extent.
        extent: usize,
    },
    /// A function without a value on its arguments: the graph does not verify.
    #[error("`{statement}`: `{function}` has no value on these arguments")]
    Undefined {
        /// The statement.
        statement: Arc<str>,
        /// The function.
        function: &'static str,
    },
}

impl RefTensor {
    /// A tensor with these elements, each converted to `dtype`.
    ///
    /// # Errors
    /// [`RefError::Length`].
    pub fn new(dtype: DType, shape: Vec<usize>, data: Vec<Value>) -> Result<RefTensor, RefError> {
        let expected = shape.iter().fold(1usize, |n, &b| n.saturating_mul(b));
        if expected != data.len() {
            return Err(RefError::Length {
                shape,
                expected,
                given: data.len(),
            });
        }
        let data = data.into_iter().map(|v| store(v, dtype)).collect();
        Ok(RefTensor { shape, dtype, data })
    }

    /// [`RefTensor::new`] from floats.
    ///
    /// # Errors
    /// [`RefError::Length`].
    pub fn from_f64(dtype: DType, shape: Vec<usize>, data: &[f64]) -> Result<RefTensor, RefError> {
        let data = data.iter().map(|&x| Value::Float(x)).collect();
        RefTensor::new(dtype, shape, data)
    }

    /// [`RefTensor::new`] from integers.
    ///
    /// # Errors
    /// [`RefError::Length`].
    pub fn from_i64(dtype: DType, shape: Vec<usize>, data: &[i64]) -> Result<RefTensor, RefError> {
        let data = data.iter().map(|&x| Value::Int(x)).collect();
        RefTensor::new(dtype, shape, data)
    }

    /// Extents of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Elements, row-major.
    pub fn data(&self) -> &[Value] {
        &self.data
    }

    /// Elements as floats, row-major.
    pub fn to_f64(&self) -> Vec<f64> {
        self.data.iter().map(|v| v.as_f64()).collect()
    }
}

/// The outputs of the graph, in order.
///
/// # Errors
/// Inputs that do not fit, and reads out of range.
pub fn run(
    graph: &BoundGraph,
    inputs: &BTreeMap<Arc<str>, RefTensor>,
) -> Result<Vec<RefTensor>, RefError> {
    let mut tensors: Vec<Option<RefTensor>> =
        run_all(graph, inputs)?.into_iter().map(Some).collect();
    let mut outputs: Vec<RefTensor> = Vec::new();
    for (n, o) in graph.outputs().iter().enumerate() {
        let first = graph.outputs()[..n].iter().position(|p| p.node == o.node);
        outputs.push(match tensors[o.node.at()].take() {
            Some(tensor) => tensor,
            None => outputs[first.expect("it was taken before")].clone(),
        });
    }
    Ok(outputs)
}

/// The outputs of the graph, in order; `states` become those after the run. One that is not there is
/// zeros.
///
/// # Errors
/// As [`run`]; then the states are as before.
pub fn step(
    graph: &BoundGraph,
    inputs: &BTreeMap<Arc<str>, RefTensor>,
    states: &mut BTreeMap<Arc<str>, RefTensor>,
) -> Result<Vec<RefTensor>, RefError> {
    let mut all = inputs.clone();
    for (id, _) in graph.states() {
        let node = graph.node(id);
        let zeros = || RefTensor {
            shape: graph.shape(id).to_vec(),
            dtype: node.dtype,
            data: vec![store(Value::Int(0), node.dtype); graph.elements(id)],
        };
        let state = states.get(&node.name).cloned().unwrap_or_else(zeros);
        all.insert(node.name.clone(), state);
    }
    let tensors = run_all(graph, &all)?;
    for (id, last) in graph.states() {
        states.insert(graph.node(id).name.clone(), tensors[last.at()].clone());
    }
    let outputs = graph.outputs().iter();
    Ok(outputs.map(|o| tensors[o.node.at()].clone()).collect())
}

/// Every tensor of the graph, by node.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    graph: &BoundGraph,
    inputs: &BTreeMap<Arc<str>, RefTensor>,
) -> Result<Vec<RefTensor>, RefError> {
    for name in inputs.keys() {
        let known = |n: &crate::graph::Node| n.role().is_some() && n.name == *name;
        if !graph.nodes().iter().any(known) {
            return Err(RefError::UnknownInput(name.clone()));
        }
    }
    let mut tensors: Vec<RefTensor> = Vec::with_capacity(graph.nodes().len());
    for (id, node) in graph.ids() {
        let tensor = match &node.op {
            Op::Input(_) => {
                let name = node.name.clone();
                let given = inputs
                    .get(&name)
                    .ok_or_else(|| RefError::MissingInput(name.clone()))?;
                let (expected, given_shape) = (graph.shape(id), given.shape());
                if expected != given_shape {
                    return Err(RefError::Shape {
                        name,
                        expected: expected.to_vec(),
                        given: given_shape.to_vec(),
                    });
                }
                if given.dtype != node.dtype {
                    return Err(RefError::DType {
                        name,
                        expected: node.dtype,
                        given: given.dtype,
                    });
                }
                given.clone()
            }
            Op::EinSum(e) if e.opaque().is_some() => opaque::run(e, graph, id, &tensors)?,
            Op::EinSum(e) => {
                if let Some(store) = &node.store {
                    let of = |n: usize| {
                        let operand = &tensors[e.operands[n].node.at()];
                        operand.data.first().map_or(0, |v| v.as_i64())
                    };
                    store.written(graph.shape(id), &of).map_err(|outside| {
                        RefError::StoreOutOfRange {
                            statement: node.name.clone(),
                            state: graph.node(store.state).name.clone(),
                            axis: outside.axis,
                            value: outside.value,
                            extent: graph.shape(id)[outside.axis],
                        }
                    })?;
                }
                let statement = Statement::compile(e, graph, graph.label_extents(id), &tensors);
                let data = statement.run(e).map_err(|fault| match fault {
                    Fault::Range {
                        operand,
                        axis,
                        value,
                    } => {
                        let tensor = e.operands[operand].node;
                        RefError::OutOfRange {
                            statement: node.name.clone(),
                            tensor: graph.node(tensor).name.clone(),
                            axis,
                            value,
                            extent: graph.shape(tensor)[axis],
                        }
                    }
                    Fault::Undefined(function) => RefError::Undefined {
                        statement: node.name.clone(),
                        function,
                    },
                })?;
                RefTensor {
                    shape: graph.shape(id).to_vec(),
                    dtype: node.dtype,
                    data,
                }
            }
        };
        tensors.push(tensor);
    }
    Ok(tensors)
}

/// What a store into `dtype` and a load give back.
fn store(v: Value, dtype: DType) -> Value {
    match dtype {
        DType::F32 => {
            let x = v.as_f64();
            let narrow = x as f32;
            Value::Float(if narrow.is_infinite() {
                narrow.into()
            } else {
                x
            })
        }
        _ => v.cast(dtype),
    }
}

enum Fault {
    Range {
        operand: usize,
        axis: usize,
        value: i64,
    },
    Undefined(&'static str),
}

/// An [`Expr`] whose every value is of the kind its element type says.
enum Code {
    Read(usize),
    Value(Value),
    Index(usize),
    Call(ScalarFn, Vec<Code>),
    Convert(DType, Box<Code>),
    If(Box<[Code; 3]>),
    Fold(Box<Fold>),
}

/// What a [`Code::Read`] reads.
type Reads<'r> = dyn Fn(usize, &[i64]) -> Result<Value, Fault> + 'r;

/// An access: where the element is.
enum Place {
    /// In bounds at every point: start and step per label.
    Direct(i64, Vec<(usize, i64)>),
    /// Per axis: index, extent, stride; and the value outside.
    Checked(Vec<(Code, i64, i64)>, Option<Value>),
}

struct Statement<'a> {
    extents: &'a [usize],
    reads: Vec<(&'a [Value], Place)>,
    value: Code,
    dtype: DType,
}

impl<'a> Statement<'a> {
    fn compile(
        e: &EinSum,
        graph: &BoundGraph,
        extents: &'a [usize],
        tensors: &'a [RefTensor],
    ) -> Statement<'a> {
        let dtypes: Vec<DType> = e
            .operands
            .iter()
            .map(|o| tensors[o.node.at()].dtype)
            .collect();
        let code = |x: &Expr| compile(x, &dtypes, graph.slots());
        let read = |o: &crate::ein::Operand| {
            let tensor = &tensors[o.node.at()];
            let place = direct(&AccessMap::of(o), &tensor.shape, extents).unwrap_or_else(|| {
                let axes = o.index.iter().map(code).zip(&tensor.shape);
                let axes = axes
                    .zip(strides(&tensor.shape))
                    .map(|((c, &n), s)| (c, n as i64, s));
                let otherwise = o.otherwise.map(|v| store(v, tensor.dtype));
                Place::Checked(axes.collect(), otherwise)
            });
            (tensor.data.as_slice(), place)
        };
        Statement {
            extents,
            reads: e.operands.iter().map(read).collect(),
            value: match &e.reduce {
                None => code(&e.body),
                Some(r) => fold(r, &e.body, &dtypes, graph.slots()),
            },
            dtype: e.dtype,
        }
    }

    fn run(&self, e: &EinSum) -> Result<Vec<Value>, Fault> {
        let outer = e.out.iter().map(Vec::len).sum::<usize>();
        let mut at = vec![0i64; self.extents.len()];
        let mut data = Vec::new();
        // The labels of the output come first, in its row-major order.
        let mut more = self.extents[..outer].iter().all(|&n| n > 0);
        while more {
            let value = self.eval(&self.value, &at)?;
            data.push(store(value, self.dtype));
            more = advance(&mut at[..outer], &self.extents[..outer]);
        }
        Ok(data)
    }

    fn eval(&self, code: &Code, at: &[i64]) -> Result<Value, Fault> {
        eval(code, at, self.extents, &|n, at| self.read(n, at))
    }

    fn read(&self, operand: usize, at: &[i64]) -> Result<Value, Fault> {
        let (data, place) = &self.reads[operand];
        let offset = match place {
            Place::Direct(start, steps) => {
                steps.iter().fold(*start, |o, &(l, step)| o + at[l] * step)
            }
            Place::Checked(axes, otherwise) => {
                let mut offset = 0;
                for (axis, (index, extent, stride)) in axes.iter().enumerate() {
                    let value = self.eval(index, at)?.as_i64();
                    if !(0..*extent).contains(&value) {
                        return otherwise.ok_or(Fault::Range {
                            operand,
                            axis,
                            value,
                        });
                    }
                    offset += value * stride;
                }
                offset
            }
        };
        Ok(data[offset as usize])
    }
}

fn eval(code: &Code, at: &[i64], extents: &[usize], reads: &Reads<'_>) -> Result<Value, Fault> {
    let eval = |code: &Code| eval(code, at, extents, reads);
    match code {
        Code::Read(n) => reads(*n, at),
        Code::Value(v) => Ok(*v),
        Code::Index(l) => Ok(Value::Int(at[*l])),
        Code::Convert(d, c) => Ok(store(eval(c)?, *d)),
        Code::If(c) => eval(if eval(&c[0])?.as_bool() { &c[1] } else { &c[2] }),
        Code::Fold(fold) => fold.value(at, extents, reads),
        Code::Call(f, args) => {
            let mut values = [Value::Bool(false); 3];
            for (value, arg) in values.iter_mut().zip(args) {
                *value = eval(arg)?;
                let left = value.as_bool();
                if (*f == ScalarFn::AND && !left) || (*f == ScalarFn::OR && left) {
                    return Ok(Value::Bool(left));
                }
            }
            f.eval(&values[..args.len().min(3)])
                .ok_or(Fault::Undefined(f.name()))
        }
    }
}

/// The next point in row-major order; false after the last.
fn advance(at: &mut [i64], extents: &[usize]) -> bool {
    for (i, &n) in at.iter_mut().zip(extents).rev() {
        *i += 1;
        if *i < n as i64 {
            return true;
        }
        *i = 0;
    }
    false
}

fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as i64;
    }
    strides
}

/// The access as start and steps, if it is affine and in bounds at every point.
fn direct(map: &AccessMap, shape: &[usize], extents: &[usize]) -> Option<Place> {
    let (mut start, mut steps) = (0i64, Vec::<(usize, i64)>::new());
    for ((axis, &extent), stride) in map.axes.iter().zip(shape).zip(strides(shape)) {
        let (terms, offset) = match axis {
            AxisAccess::Bare(l) => (&[(*l, 1)][..], 0),
            AxisAccess::Affine { terms, offset } => (&terms[..], *offset),
            AxisAccess::Computed(_) | AxisAccess::Data => return None,
        };
        let (mut lo, mut hi) = (offset as i128, offset as i128);
        for &(l, c) in terms {
            let span = c as i128 * (extents[l.at()] as i128 - 1);
            (lo, hi) = (lo + span.min(0), hi + span.max(0));
            steps.push((l.at(), c.checked_mul(stride)?));
        }
        if lo < 0 || hi >= extent as i128 {
            return None;
        }
        start += offset * stride;
    }
    Some(Place::Direct(start, steps))
}

fn compile(e: &Expr, operands: &[DType], slots: &[Value]) -> Code {
    let code = |e: &Expr| compile(e, operands, slots);
    let dtype = |e: &Expr| e.dtype(&|n| operands.get(n).copied());
    let convert = |d: Option<DType>, c: Code| match d {
        Some(d) => Code::Convert(d, Box::new(c)),
        None => c,
    };
    match e {
        Expr::Operand(n) => Code::Read(*n),
        Expr::Const(v, d) => Code::Value(store(*v, *d)),
        Expr::Slot(s, d) => Code::Value(store(slots[*s as usize], *d)),
        Expr::Index(l) => Code::Index(l.at()),
        Expr::Dim(d) => Code::Value(Value::Int(d.as_const().unwrap_or(0))),
        Expr::Cast(d, e) => convert(Some(*d), code(e)),
        Expr::Call(f, args) => {
            let narrow = dtype(e).filter(|d| d.is_int() && *d != DType::I64);
            convert(narrow, Code::Call(*f, args.iter().map(code).collect()))
        }
        Expr::If(c, a, b) => {
            let common = dtype(e);
            let branch = |x: &Expr| convert(common.filter(|_| dtype(x) != common), code(x));
            Code::If(Box::new([code(c), branch(a), branch(b)]))
        }
        Expr::Fold(f) => fold(&f.reduce, &f.body, operands, slots),
        // Only as the body of a reduction, which takes it apart.
        Expr::Tuple(_) => Code::Value(Value::Bool(false)),
        // Such a statement is run by its kernel.
        Expr::Opaque(_) => Code::Value(Value::Int(0)),
    }
}

#[cfg(test)]
mod tests;
