//! Blocks inlined, loops unrolled.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::size::{MAX_STATEMENTS, Sizes};
use super::{Arg, Context, LowerError, find};
use crate::ein::{DType, Dim, EinSum, EinSumSpec, Value};
use crate::graph::{Clause, Cmp, GraphBuilder, NodeId, Pin, Role};
use crate::syntax::Diag;
use crate::syntax::ast::CmpOp;
use crate::syntax::check;
use crate::syntax::check::{
    Argument, Block, Call, Callee, Checked, Expr, ExprKind, LoopVar, MAX_LENGTH, Param, ParamRole,
    Place, Stmt, Type, VarId,
};

/// Builds blocks of one program.
pub(super) struct Lower<'a, 'c> {
    pub(super) program: &'a Checked,
    pub(super) context: &'a mut Context<'c>,
    pub(super) builder: &'a mut GraphBuilder,
}

/// One inlined block.
pub(super) struct Frame<'a> {
    pub(super) block: &'a Block,
    /// Its dims and loop numbers in those of the graph.
    pub(super) dims: BTreeMap<Arc<str>, Dim>,
    pub(super) vars: Vec<Option<Arg>>,
    /// Before the names of its statements.
    pub(super) prefix: String,
}

impl<'a> Frame<'a> {
    pub(super) fn new(
        block: &'a Block,
        dims: BTreeMap<Arc<str>, Dim>,
        prefix: String,
    ) -> Frame<'a> {
        let vars = block
            .body
            .as_ref()
            .map_or(block.params.len(), |b| b.vars.len());
        Frame {
            block,
            dims,
            vars: vec![None; vars],
            prefix,
        }
    }
}

impl<'a, 'c> Lower<'a, 'c> {
    pub(super) fn new(
        program: &'a Checked,
        context: &'a mut Context<'c>,
        builder: &'a mut GraphBuilder,
    ) -> Lower<'a, 'c> {
        Lower {
            program,
            context,
            builder,
        }
    }

    /// An extent in the dims of the graph.
    pub(super) fn dim(&self, frame: &Frame<'_>, dim: &Dim) -> Dim {
        dim.substitute(&|s| match frame.dims.get(s) {
            Some(value) => Some(value.clone()),
            None => self.const_value(s).map(Dim::from),
        })
    }

    /// The value of a Rust const; one that a dim hides is mentioned as `self::N`.
    fn const_value(&self, path: &str) -> Option<i64> {
        let consts = self.context.consts;
        let outer = || consts.get(path.strip_prefix("self::")?);
        consts.get(path).or_else(outer).copied()
    }

    pub(super) fn inputs(&mut self, frame: &Frame<'a>) -> Result<Vec<Arg>, LowerError> {
        frame
            .block
            .params
            .iter()
            .map(|param| self.param(frame, param))
            .collect()
    }

    fn param(&mut self, frame: &Frame<'a>, param: &Param) -> Result<Arg, LowerError> {
        let role = match param.role {
            ParamRole::Data => Role::Data,
            ParamRole::Weight => Role::Weight,
            ParamRole::State => Role::State,
            ParamRole::Host => {
                let value = self.context.hosts.get(&param.name.name);
                let missing = || LowerError::MissingHost(param.name.name.clone());
                return value.map(|v| Arg::Value(*v)).ok_or_else(missing);
            }
        };
        self.input(frame, role, &param.ty, param.name.to_string())
    }

    fn input(
        &mut self,
        frame: &Frame<'a>,
        role: Role,
        ty: &Type,
        path: String,
    ) -> Result<Arg, LowerError> {
        match ty {
            Type::Tensor(t) => {
                let shape = t.axes.iter().map(|axis| self.dim(frame, axis)).collect();
                let node = self.builder.input(path, role, t.dtype, shape)?;
                Ok(match role {
                    Role::State => Arg::State(node),
                    Role::Data | Role::Weight => Arg::Tensor(node),
                })
            }
            Type::Struct(s) => {
                let fields = self
                    .program
                    .structure(&s.name)
                    .into_iter()
                    .flat_map(|s| &s.fields);
                let typed = fields.filter_map(|field| {
                    let name = field.name.as_str();
                    Some((name, self.program.field_type(s, name)?))
                });
                let made: Result<Vec<Arg>, LowerError> = typed
                    .map(|(name, ty)| self.input(frame, role, &ty, format!("{path}.{name}")))
                    .collect();
                Ok(Arg::Struct(made?))
            }
            Type::Array(element, length) => {
                let count = self.number(frame, length)?;
                let made: Result<Vec<Arg>, LowerError> = (0..count)
                    .map(|at| self.input(frame, role, element, format!("{path}.{at}")))
                    .collect();
                Ok(Arg::Array(made?))
            }
        }
    }

    pub(super) fn number(&self, frame: &Frame<'_>, dim: &Dim) -> Result<i64, LowerError> {
        let length = self.dim(frame, dim);
        match length.as_const() {
            Some(value) if value > MAX_LENGTH => Err(LowerError::TooLong {
                length: dim.clone(),
                value,
            }),
            Some(n) => Ok(n),
            None => Err(LowerError::Length(length)),
        }
    }

    /// The dims of a block that is called, in those of the graph.
    pub(super) fn callee_dims(
        &self,
        frame: &Frame<'_>,
        dims: &BTreeMap<Arc<str>, Dim>,
    ) -> BTreeMap<Arc<str>, Dim> {
        let dims = dims.iter();
        dims.map(|(dim, value)| (dim.clone(), self.dim(frame, value)))
            .collect()
    }

    /// Inlines a block that is called from outside of the program.
    ///
    /// # Errors
    /// [`LowerError::TooLarge`] before anything is built; whatever else is wrong.
    pub(super) fn outermost(
        &mut self,
        block: &'a Block,
        dims: BTreeMap<Arc<str>, Dim>,
        args: Vec<Arg>,
    ) -> Result<Vec<NodeId>, Vec<LowerError>> {
        let size = self.size(block, dims.clone(), &mut Sizes::new());
        if !self.builder.count_statements(size, MAX_STATEMENTS) {
            let block = block.name.name.clone();
            return Err(vec![LowerError::TooLarge { block }]);
        }
        let prefix = self.context.prefix.to_owned();
        let results = self.block(block, dims, args, prefix);
        self.builder.stand_at(None);
        results
    }

    fn block(
        &mut self,
        block: &'a Block,
        dims: BTreeMap<Arc<str>, Dim>,
        args: Vec<Arg>,
        prefix: String,
    ) -> Result<Vec<NodeId>, Vec<LowerError>> {
        if block.is_broken() {
            let (block, first) = (block.name.name.clone(), self.program.errors.first());
            let first = first.map_or_else(String::new, Diag::to_string);
            return Err(vec![LowerError::Invalid { block, first }]);
        }
        let missing = block
            .consts
            .keys()
            .filter(|c| self.const_value(c).is_none());
        let mut errors: Vec<LowerError> = missing.cloned().map(LowerError::MissingConst).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut frame = Frame::new(block, dims, prefix);
        for (slot, arg) in frame.vars.iter_mut().zip(args) {
            *slot = Some(arg);
        }
        let obligations = block.obligations.iter().map(|o| &o.clause);
        for clause in obligations.chain(&block.clauses) {
            if let Err(error) = self.clause(&frame, clause) {
                errors.push(error);
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let Some(body) = &block.body else {
            return self.kernel(&frame, block).map_err(|e| vec![e]);
        };
        self.stmts(&mut frame, &body.stmts)?;
        let results = body.results.iter().map(|var| {
            let arg = frame.vars[var.at()].clone();
            let ty = &body.vars[var.at()];
            match (arg, ty.ty.tensor()) {
                (Some(Arg::Tensor(node)), _) => Ok(node),
                (Some(Arg::State(state)), _) => Ok(self.builder.version(state)),
                (Some(Arg::Value(value)), Some(t)) => self.constant(&ty.name, value, t.dtype),
                _ => Err(LowerError::NoBlock(block.name.name.clone())),
            }
        });
        results
            .collect::<Result<_, _>>()
            .map_err(|e: LowerError| vec![e])
    }

    /// A number as a tensor of rank 0.
    pub(super) fn constant(
        &mut self,
        name: &Arc<str>,
        value: Value,
        dtype: DType,
    ) -> Result<NodeId, LowerError> {
        let body = self.builder.literal(value, dtype);
        let spec = EinSumSpec {
            labels: Vec::new(),
            out: Vec::new(),
            reduce: None,
            operands: Vec::new(),
            body,
            dtype,
        };
        self.vertex(name.clone(), spec, Vec::new())
    }

    /// Adds a vertex.
    pub(super) fn vertex(
        &mut self,
        name: Arc<str>,
        spec: EinSumSpec,
        pins: Vec<Pin>,
    ) -> Result<NodeId, LowerError> {
        let einsum = EinSum::new(spec).map_err(|source| LowerError::EinSum {
            statement: name.clone(),
            source,
        })?;
        Ok(self.builder.einsum(name, einsum, pins)?)
    }

    /// Checks a condition, or leaves it for when the dims are bound.
    fn clause(&mut self, frame: &Frame<'_>, clause: &check::Clause) -> Result<(), LowerError> {
        let cmp = match clause.cmp {
            CmpOp::Eq => Cmp::Eq,
            CmpOp::Le => Cmp::Le,
            CmpOp::Ge => Cmp::Ge,
            CmpOp::Lt => Cmp::Lt,
            CmpOp::Gt => Cmp::Gt,
            CmpOp::Ne => return Ok(()),
        };
        let (left, right) = (
            self.dim(frame, &clause.left),
            self.dim(frame, &clause.right),
        );
        let block = &frame.block.name;
        let known = |d: &Dim| d.symbols().is_empty();
        if known(&left) && known(&right) {
            let none = |_: &str| None;
            if cmp.holds(left.eval(&none)?, right.eval(&none)?) {
                return Ok(());
            }
            return Err(LowerError::Clause {
                block: block.name.clone(),
                clause: clause.to_string(),
                origin: clause.origin.to_string(),
            });
        }
        let origin = format!("{} in block `{block}`", clause.origin).into();
        self.builder.clause(Clause {
            left,
            cmp,
            right,
            origin,
        });
        Ok(())
    }

    fn stmts(&mut self, frame: &mut Frame<'a>, stmts: &'a [Stmt]) -> Result<(), Vec<LowerError>> {
        for stmt in stmts {
            let lines = self.context.lines;
            let place = lines.and_then(|lines| lines.place(stmt.span()?));
            self.builder.stand_at(place);
            match stmt {
                Stmt::Tensor(s) => {
                    let node = self.statement(frame, s).map_err(|e| vec![e])?;
                    frame.vars[s.target.at()] = Some(Arg::Tensor(node));
                }
                Stmt::Tensors(all) => {
                    for s in all {
                        let node = self.statement(frame, s).map_err(|e| vec![e])?;
                        frame.vars[s.target.at()] = Some(Arg::Tensor(node));
                    }
                }
                Stmt::Alias { target, value } => {
                    let value = self.place(frame, value);
                    frame.vars[target.at()] = value.map(|arg| arg.settled(self.builder));
                }
                Stmt::Store(store) => self.store(frame, store).map_err(|e| vec![e])?,
                Stmt::Call(call) => self.call(frame, call)?,
                Stmt::For { var, body } => self.repeat(frame, var, body)?,
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        var: &LoopVar,
        body: &'a [Stmt],
    ) -> Result<(), Vec<LowerError>> {
        let prefix = frame.prefix.clone();
        match var {
            LoopVar::Elements(vars) => {
                let elements = |array: &VarId| match &frame.vars[array.at()] {
                    Some(Arg::Array(elements)) => elements.clone(),
                    _ => Vec::new(),
                };
                let arrays: Vec<Vec<Arg>> = vars.iter().map(|(_, a)| elements(a)).collect();
                let count = arrays.iter().map(Vec::len).min().unwrap_or(0);
                for at in 0..count {
                    for ((var, _), array) in vars.iter().zip(&arrays) {
                        frame.vars[var.at()] = Some(array[at].clone());
                    }
                    frame.prefix = format!("{prefix}{at}.");
                    self.stmts(frame, body)?;
                }
            }
            LoopVar::Number { symbol, low, high } => {
                let low = self.number(frame, low).map_err(|e| vec![e])?;
                let high = self.number(frame, high).map_err(|e| vec![e])?;
                for at in low..high {
                    frame.dims.insert(symbol.clone(), Dim::from(at));
                    frame.prefix = format!("{prefix}{at}.");
                    self.stmts(frame, body)?;
                }
            }
        }
        frame.prefix = prefix;
        Ok(())
    }

    fn call(&mut self, frame: &mut Frame<'a>, call: &'a Call) -> Result<(), Vec<LowerError>> {
        let args: Option<Vec<Arg>> = call
            .args
            .iter()
            .map(|arg| match arg {
                Argument::Place(place) => self.place(frame, place),
                Argument::Value(Expr {
                    kind: ExprKind::Lit(value),
                    ..
                }) => Some(Arg::Value(*value)),
                Argument::Value(Expr {
                    kind: ExprKind::Host(var),
                    ..
                }) => frame.vars[var.at()].clone(),
                Argument::Value(_) => None,
            })
            .collect();
        let args = args.unwrap_or_default();
        let first = call.targets.iter().flatten().next();
        let vars = frame.block.body.as_ref().map(|b| &b.vars);
        let target = first
            .zip(vars)
            .map_or("_", |(var, vars)| &*vars[var.at()].name);
        let prefix = format!("{}{target}.", frame.prefix);
        let results = match &call.callee {
            Callee::Local { name, dims } => {
                let callee = find(self.program, name)?;
                let dims = self.callee_dims(frame, dims);
                self.block(callee, dims, args, prefix)?
            }
            Callee::Foreign(at) => {
                let foreign = &frame.block.foreign[*at];
                let shape = |ty: &Type| {
                    let axes = ty.tensor().map_or(&[][..], |t| &t.axes);
                    axes.iter().map(|axis| self.dim(frame, axis)).collect()
                };
                let said: Vec<Vec<Dim>> = foreign.results.iter().map(shape).collect();
                let others = &mut *self.context.foreign;
                others.call(foreign, &prefix, self.builder, &args, &said)?
            }
        };
        for (target, node) in call.targets.iter().zip(results) {
            if let Some(target) = target {
                frame.vars[target.at()] = Some(Arg::Tensor(node));
            }
        }
        Ok(())
    }

    /// What a variable or field stands for.
    pub(super) fn place(&self, frame: &Frame<'_>, place: &Place) -> Option<Arg> {
        let body = frame.block.body.as_ref()?;
        let mut arg = frame.vars[place.var.at()].clone()?;
        let mut ty = body.vars[place.var.at()].ty.clone();
        for field in &place.fields {
            let (Arg::Struct(fields), Type::Struct(s)) = (arg, &ty) else {
                return None;
            };
            let structure = self.program.structure(&s.name)?;
            let at = structure
                .fields
                .iter()
                .position(|f| *f.name.name == **field)?;
            arg = fields.get(at)?.clone();
            ty = self.program.field_type(s, field)?;
        }
        Some(arg)
    }
}
