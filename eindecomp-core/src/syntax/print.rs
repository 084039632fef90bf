//! The canonical text of a tree: `parse ∘ print` gives the tree back, up to spans.

use std::fmt::{self, Write};

use super::ast::*;

/// Writes `items` with `separator` between them.
fn join<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Items in parentheses, unless there is just one.
struct TupleOf<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for TupleOf<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [only] => write!(f, "{only}"),
            items => {
                f.write_char('(')?;
                join(f, items, ", ")?;
                f.write_char(')')
            }
        }
    }
}

/// Writes each line of what is written indented by one level.
struct Indented<'a, 'b>(&'a mut fmt::Formatter<'b>, bool);

impl Write for Indented<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Most texts are parts of a line.
        if !self.1 && !text.as_bytes().contains(&b'\n') {
            return self.0.write_str(text);
        }
        for line in text.split_inclusive('\n') {
            if self.1 && line != "\n" {
                self.0.write_str("    ")?;
            }
            self.0.write_str(line)?;
            self.1 = line.ends_with('\n');
        }
        Ok(())
    }
}

fn indented<'a, 'b>(f: &'a mut fmt::Formatter<'b>) -> Indented<'a, 'b> {
    Indented(f, true)
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(f, &self.items, "\n")
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Block(item) => item.fmt(f),
            Item::Struct(item) => item.fmt(f),
            Item::ScalarFn(item) => item.fmt(f),
            Item::Agg(item) => item.fmt(f),
        }
    }
}

impl fmt::Display for Vis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vis::Private => Ok(()),
            Vis::Public(_) => f.write_str("pub "),
            Vis::Restricted(path) => match path.as_ident().map(|name| name.as_str()) {
                Some("crate" | "self" | "super") => write!(f, "pub({path}) "),
                _ => write!(f, "pub(in {path}) "),
            },
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            AttrKind::Doc(text) if !text.starts_with('/') && !text.contains(['\n', '\r']) => {
                write!(f, "///{text}")
            }
            AttrKind::Doc(text) => write!(f, "#[doc = {text:?}]"),
            AttrKind::Name(text) => write!(f, "#[name = {text:?}]"),
            AttrKind::Weight => f.write_str("#[weight]"),
            AttrKind::State => f.write_str("#[state]"),
            AttrKind::Host => f.write_str("#[host]"),
            AttrKind::Whole => f.write_str("#[whole]"),
            AttrKind::Split(parts) => {
                f.write_str("#[split(")?;
                join(
                    f,
                    parts.iter().map(|(index, n)| format!("{index} = {n}")),
                    ", ",
                )?;
                f.write_str(")]")
            }
            AttrKind::Kernel(path) => write!(f, "#[kernel = {path}]"),
            AttrKind::Rust(tokens) => {
                f.write_str("#[")?;
                join(f, tokens.iter().map(|token| &token.tok), " ")?;
                f.write_str("]")
            }
        }
    }
}

/// Attributes, a line each.
fn attrs(f: &mut impl Write, attrs: &[Attr]) -> fmt::Result {
    attrs.iter().try_for_each(|attr| writeln!(f, "{attr}"))
}

fn head(f: &mut fmt::Formatter<'_>, head: &Head, keyword: &str) -> fmt::Result {
    attrs(f, &head.attrs)?;
    write!(f, "{}{keyword} {}", head.vis, head.name)
}

impl fmt::Display for Generic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Generic::Dim(name) => write!(f, "dim {name}"),
            Generic::Rest(name) => write!(f, "dim ..{name}"),
            Generic::Dtype(name, DtypeClass::Float) => write!(f, "{name}: Float"),
            Generic::Dtype(name, DtypeClass::Int) => write!(f, "{name}: Int"),
        }
    }
}

fn generics(f: &mut fmt::Formatter<'_>, generics: &[Generic]) -> fmt::Result {
    if generics.is_empty() {
        return Ok(());
    }
    f.write_char('<')?;
    join(f, generics, ", ")?;
    f.write_char('>')
}

/// Generics, parameters and result type of a block or kernel.
fn signature(
    f: &mut fmt::Formatter<'_>,
    types: &[Generic],
    params: &[Param],
    ret: &RType,
) -> fmt::Result {
    generics(f, types)?;
    f.write_char('(')?;
    if params.iter().all(|param| param.attrs.is_empty()) {
        join(
            f,
            params.iter().map(|p| format!("{}: {}", p.name, p.ty)),
            ", ",
        )?;
    } else {
        f.write_char('\n')?;
        let mut inner = indented(f);
        for param in params {
            attrs(&mut inner, &param.attrs)?;
            writeln!(inner, "{}: {},", param.name, param.ty)?;
        }
    }
    write!(f, ") -> {ret}")
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyword = if self.splits.is_some() {
            "extern fn"
        } else {
            "fn"
        };
        head(f, &self.head, keyword)?;
        signature(f, &self.generics, &self.params, &self.ret)?;
        if let Some(splits) = &self.splits {
            f.write_str(" splits(")?;
            join(f, splits, ", ")?;
            return f.write_str(");\n");
        }
        if !self.clauses.is_empty() {
            f.write_str(" where ")?;
            join(f, &self.clauses, ", ")?;
        }
        f.write_str(" {\n")?;
        let mut inner = indented(f);
        self.stmts
            .iter()
            .try_for_each(|stmt| write!(inner, "{stmt}"))?;
        if let Some(result) = &self.result {
            writeln!(inner, "{}", TupleOf(&result.names))?;
        }
        if let Some(unnamed) = &self.unnamed {
            writeln!(inner, "{unnamed}")?;
        }
        f.write_str("}\n")
    }
}

impl fmt::Display for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, &self.head, "struct")?;
        generics(f, &self.generics)?;
        f.write_str(" {\n")?;
        let mut inner = indented(f);
        for field in &self.fields {
            attrs(&mut inner, &field.attrs)?;
            writeln!(inner, "{}: {},", field.name, field.ty)?;
        }
        f.write_str("}\n")
    }
}

impl fmt::Display for ScalarFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, &self.head, "fn")?;
        f.write_char('(')?;
        join(f, &self.params, ", ")?;
        writeln!(f, ") = {};", self.body)
    }
}

impl fmt::Display for Agg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, &self.head, "agg")?;
        f.write_char('(')?;
        join(
            f,
            self.params
                .iter()
                .map(|(name, dtype)| format!("{name}: {dtype}")),
            ", ",
        )?;
        f.write_str(") {\n")?;
        let mut inner = indented(f);
        inner.write_str("state { ")?;
        for (i, part) in self.state.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(
                inner,
                "{comma}{}: {} = {}",
                part.name, part.dtype, part.identity
            )?;
        }
        writeln!(inner, " }}\nlift {}", self.lift)?;
        let (first, second) = &self.merge_args;
        write!(
            inner,
            "merge({first}, {second}) {}\nfinish {}\n",
            self.merge, self.finish
        )?;
        f.write_str("}\n")
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        join(
            f,
            self.fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
            ", ",
        )?;
        f.write_str(" }")
    }
}

impl fmt::Display for RecordBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{\n")?;
        let mut inner = indented(f);
        for (name, value) in &self.lets {
            writeln!(inner, "let {name} = {value};")?;
        }
        match &self.value {
            RecordValue::Record(record) => writeln!(inner, "{record}")?,
            RecordValue::Expr(expr) => writeln!(inner, "{expr}")?,
        }
        f.write_char('}')
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TypeKind::Tensor { dtype, axes } => {
                write!(f, "{dtype}")?;
                let Some(axes) = axes else { return Ok(()) };
                f.write_char('[')?;
                join(f, axes, ", ")?;
                f.write_char(']')
            }
            TypeKind::Struct { path, args } if args.is_empty() => write!(f, "{path}"),
            TypeKind::Struct { path, args } => {
                write!(f, "{path}<")?;
                join(f, args, ", ")?;
                f.write_char('>')
            }
            TypeKind::Array(element, length) => write!(f, "[{element}; {length}]"),
        }
    }
}

impl fmt::Display for RType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TupleOf(&self.types).fmt(f)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DimKind::Int(value) => write!(f, "{value}"),
            DimKind::Name(path) => write!(f, "{path}"),
            DimKind::Rest(name) => write!(f, "..{name}"),
            DimKind::Neg(inner) => write!(f, "-{inner}"),
            DimKind::Binary(op, left, right) => write!(f, "{left} {} {right}", op.symbol()),
            DimKind::Paren(inner) => write!(f, "({inner})"),
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ClauseKind::Define(name, dim) => write!(f, "dim {name} = {dim}"),
            ClauseKind::Compare(left, op, right) => write!(f, "{left} {} {right}", op.symbol()),
        }
    }
}

impl fmt::Display for Stmt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        attrs(f, &self.attrs)?;
        match &self.kind {
            StmtKind::Let {
                mutable,
                pat,
                ty,
                value,
            } => {
                f.write_str(if mutable.is_some() {
                    "let mut "
                } else {
                    "let "
                })?;
                write!(f, "{pat}")?;
                if let Some(ty) = ty {
                    write!(f, ": {ty}")?;
                }
                writeln!(f, " = {value};")
            }
            StmtKind::Store {
                target,
                subs,
                value,
            } => {
                write!(f, "{target}[")?;
                join(f, subs, ", ")?;
                writeln!(f, "] = {value};")
            }
            StmtKind::For { vars, range, body } => {
                writeln!(f, "for {} in {range} {{", TupleOf(vars))?;
                let mut inner = indented(f);
                body.iter().try_for_each(|stmt| write!(inner, "{stmt}"))?;
                f.write_str("}\n")
            }
            StmtKind::Carry {
                targets,
                path,
                args,
            } => {
                write!(f, "{} = {path}(", TupleOf(targets))?;
                join(f, args, ", ")?;
                f.write_str(");\n")
            }
            // What could not be read cannot be written; the program is refused anyway.
            StmtKind::Error(_) => Ok(()),
        }
    }
}

impl fmt::Display for ForRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForRange::Arrays(names) => write!(f, "{}", TupleOf(names)),
            ForRange::Range(low, high) => write!(f, "{low} .. {high}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TupleOf(&self.names).fmt(f)?;
        let Some(indices) = &self.indices else {
            return Ok(());
        };
        f.write_char('[')?;
        join(f, indices, ", ")?;
        f.write_char(']')
    }
}

impl fmt::Display for LeftIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftIndex::Index(index) => write!(f, "{index}"),
            LeftIndex::Rest(name) => write!(f, "..{name}"),
            LeftIndex::Merged(parts, _) => {
                f.write_char('(')?;
                join(f, parts, ", ")?;
                f.write_char(')')
            }
        }
    }
}

impl fmt::Display for IndexDecl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.extent {
            Some(extent) => write!(f, "{} in {extent}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl fmt::Display for Lit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lit::Int(value) => write!(f, "{value}"),
            Lit::Float(value) => write!(f, "{value:?}"),
            Lit::Inf => f.write_str("inf"),
            Lit::Nan => f.write_str("nan"),
            Lit::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for Sub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sub::Expr(expr) => write!(f, "{expr}"),
            Sub::Rest(name) => write!(f, "..{name}"),
            Sub::Merged(parts, _) => {
                f.write_char('(')?;
                join(f, parts, ", ")?;
                f.write_char(')')
            }
        }
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negative { "-" } else { "" }, self.lit)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Lit(lit) => write!(f, "{lit}"),
            ExprKind::Name(place) => write!(f, "{place}"),
            ExprKind::Access {
                place,
                subs,
                default,
            } => {
                write!(f, "{place}[")?;
                join(f, subs, ", ")?;
                f.write_char(']')?;
                default
                    .iter()
                    .try_for_each(|value| write!(f, " else {value}"))
            }
            ExprKind::Call { path, args } => {
                write!(f, "{path}(")?;
                join(f, args, ", ")?;
                f.write_char(')')
            }
            ExprKind::Reduce(reduce) => write!(f, "{reduce}"),
            ExprKind::Unary(UnaryOp::Neg, inner) => write!(f, "-{inner}"),
            ExprKind::Unary(UnaryOp::Not, inner) => write!(f, "!{inner}"),
            ExprKind::Binary(op, left, right) => write!(f, "{left} {} {right}", op.symbol()),
            ExprKind::Cast(inner, dtype) => write!(f, "{inner} as {dtype}"),
            ExprKind::Paren(inner) => write!(f, "({inner})"),
            ExprKind::Tuple(items) => TupleOf(items).fmt(f),
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                write!(f, "if {cond} {{ {then} }}")?;
                let Some(otherwise) = otherwise else {
                    return Ok(());
                };
                match otherwise.kind {
                    ExprKind::If { .. } => write!(f, " else {otherwise}"),
                    _ => write!(f, " else {{ {otherwise} }}"),
                }
            }
        }
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.agg)?;
        join(f, &self.indices, ", ")?;
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        if let Some(acc) = &self.acc {
            write!(f, "; {acc}")?;
        }
        f.write_str("] ")?;
        match &self.body {
            ReduceBody::Product(body) => write!(f, "{body}"),
            ReduceBody::Args(args) => {
                f.write_char('(')?;
                join(f, args, ", ")?;
                f.write_char(')')
            }
        }
    }
}
