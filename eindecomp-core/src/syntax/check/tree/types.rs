//! Checked types: element type and extents, structs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ein::{DType, Dim};

/// A resolved type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// `f32[B, S]`
    Tensor(TensorType),
    /// `Layer<D, F>`
    Struct(StructType),
    /// `[T; N]`
    Array(Box<Type>, Dim),
}

/// Element type and extents.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub axes: Vec<Dim>,
}

/// A struct of this program with its dims.
#[derive(Clone, Debug, PartialEq)]
pub struct StructType {
    /// Its name.
    pub name: Arc<str>,
    /// Its dims.
    pub args: Vec<Dim>,
}

impl Type {
    /// With dims replaced; those not in `by` stay.
    pub fn substitute(&self, by: &BTreeMap<Arc<str>, Dim>) -> Type {
        let of = |s: &str| by.get(s).cloned();
        let all = |dims: &[Dim]| dims.iter().map(|d| d.substitute(&of)).collect();
        match self {
            Type::Tensor(t) => Type::Tensor(TensorType {
                dtype: t.dtype,
                axes: all(&t.axes),
            }),
            Type::Struct(s) => Type::Struct(StructType {
                name: s.name.clone(),
                args: all(&s.args),
            }),
            Type::Array(element, length) => {
                Type::Array(Box::new(element.substitute(by)), length.substitute(&of))
            }
        }
    }

    /// Its extents, from the outside in.
    pub fn dims(&self) -> Vec<&Dim> {
        match self {
            Type::Tensor(t) => t.axes.iter().collect(),
            Type::Struct(s) => s.args.iter().collect(),
            Type::Array(element, length) => {
                let inner = element.dims().into_iter();
                std::iter::once(length).chain(inner).collect()
            }
        }
    }

    /// The struct it is made of.
    pub fn structure(&self) -> Option<&StructType> {
        match self {
            Type::Tensor(_) => None,
            Type::Struct(s) => Some(s),
            Type::Array(element, _) => element.structure(),
        }
    }

    /// [`Type::substitute`], unless an extent would be out of all proportion.
    pub fn try_substitute(&self, by: &BTreeMap<Arc<str>, Dim>) -> Option<Type> {
        let of = |s: &str| by.get(s).cloned();
        let fits = |dim: &Dim| dim.try_substitute(&of).is_some();
        let fits = self.dims().into_iter().all(fits);
        fits.then(|| self.substitute(by))
    }

    /// As a tensor.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(t) => write!(f, "{t}"),
            Type::Struct(s) if s.args.is_empty() => f.write_str(&s.name),
            Type::Struct(s) => write!(f, "{}<{}>", s.name, listed(&s.args)),
            Type::Array(element, length) => write!(f, "[{element}; {length}]"),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.axes.is_empty() {
            return write!(f, "{}", self.dtype);
        }
        write!(f, "{}[{}]", self.dtype, listed(&self.axes))
    }
}

/// Separated by commas.
pub(in crate::syntax::check) fn listed<T: fmt::Display>(items: &[T]) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
