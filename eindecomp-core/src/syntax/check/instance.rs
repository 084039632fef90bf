//! Blocks with `dim ..L` or `T: Float`: one block per number of axes and per dtype.
//!
//! The instance of `f` for `k` axes and dtype bf16 is called `f/k/bf16`, in the order of the
//! generics; its dims `L` and indices `l` become `L0`, `L1`, … and `l0`, `l1`, …. Where such a
//! block is declared it is checked for one axis and every dtype, and then for two axes; other
//! instances are made when a call needs them.

mod expand;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::ein::DType;
use crate::syntax::ast::{Block, DimKind, DtypeClass, Generic, Item, Program, Type, TypeKind};
use crate::syntax::diag::{Code, Diag};

pub(super) use expand::expand;
pub(super) use made::Instances;

/// The most axes that a `..L` may stand for.
pub(super) const MAX_REST: usize = 6;

/// With more dtype variables than this, only instances with like dtypes are checked beforehand.
const CROSSED: usize = 2;

/// Instances of one block that are made at once.
const MAX_EXPANDED: usize = 512;

/// What a `..L` or a dtype variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Choice {
    /// So many axes.
    Rank(usize),
    /// This dtype.
    Dtype(DType),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Rank(rank) => write!(f, "{rank}"),
            Choice::Dtype(dtype) => write!(f, "{dtype}"),
        }
    }
}

impl DtypeClass {
    /// Its dtypes; the first one stands for the others where a block is declared.
    pub(crate) fn dtypes(self) -> &'static [DType] {
        match self {
            DtypeClass::Float => &[DType::F32, DType::F64, DType::BF16, DType::F16],
            DtypeClass::Int => &[DType::I64, DType::I32, DType::U32, DType::U8],
        }
    }
}

/// The name without the choices of an instance.
pub(crate) fn base(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// The name of an instance.
pub(super) fn instance_name(base: &str, choices: &[Choice]) -> Arc<str> {
    let mut name = base.to_owned();
    for choice in choices {
        name += &format!("/{choice}");
    }
    name.into()
}

/// The generics that instances choose.
fn variables(block: &Block) -> impl Iterator<Item = &Generic> {
    let generics = block.generics.iter();
    generics.filter(|g| matches!(g, Generic::Rest(_) | Generic::Dtype(..)))
}

/// Has the block instances?
pub(super) fn is_generic(block: &Block) -> bool {
    variables(block).next().is_some()
}

/// The program with every instance of each generic block, as far as there are not too many.
pub(super) fn expand_all(program: &Program) -> Program {
    let items = program.items.iter().flat_map(|item| match item {
        Item::Block(block) if is_generic(block) => {
            let all = product(block, &|_| (0..=MAX_REST).map(Choice::Rank).collect());
            let instances = all.iter().take(MAX_EXPANDED);
            let instances = instances.map(|choices| Item::Block(expand(block, choices)));
            instances.collect()
        }
        item => vec![item.clone()],
    });
    Program {
        items: items.collect(),
        lost: program.lost.clone(),
        broken: Vec::new(),
    }
}

/// Every combination of choices, `ranks` being those of a `..L`.
fn product(block: &Block, ranks: &dyn Fn(&Generic) -> Vec<Choice>) -> Vec<Vec<Choice>> {
    variables(block).fold(vec![Vec::new()], |all, generic| {
        let choices: Vec<Choice> = match generic {
            Generic::Dtype(_, class) => class.dtypes().iter().copied().map(Choice::Dtype).collect(),
            rest => ranks(rest),
        };
        let with = |before: Vec<Choice>| {
            let longer = move |choice: &Choice| {
                let mut longer = before.clone();
                longer.push(*choice);
                longer
            };
            choices.iter().map(longer).collect::<Vec<_>>()
        };
        all.into_iter().take(MAX_EXPANDED).flat_map(with).collect()
    })
}

/// What is checked where the block is declared: one axis, every dtype.
pub(super) fn declared(block: &Block) -> Vec<Vec<Choice>> {
    let crossed = variables(block)
        .filter(|g| matches!(g, Generic::Dtype(..)))
        .count()
        <= CROSSED;
    if !crossed {
        let like = |nth: usize| {
            let each = variables(block).map(|g| match g {
                Generic::Dtype(_, class) => Choice::Dtype(class.dtypes()[nth]),
                _ => Choice::Rank(1),
            });
            each.collect()
        };
        return (0..4).map(like).collect();
    }
    product(block, &|_| vec![Choice::Rank(1)])
}

/// Two axes for each `..L`, and any of the dtypes: what one axis does not show to be wrong.
pub(super) fn longer(block: &Block) -> Option<Vec<Choice>> {
    let ranked = variables(block).any(|g| matches!(g, Generic::Rest(_)));
    let choices = variables(block).map(|g| match g {
        Generic::Dtype(_, class) => Choice::Dtype(class.dtypes()[0]),
        _ => Choice::Rank(2),
    });
    ranked.then(|| choices.collect())
}

/// The choices that the name of an instance says, if they are this block's.
pub(super) fn named(block: &Block, name: &str) -> Option<Vec<Choice>> {
    let said: Vec<&str> = name.split('/').skip(1).collect();
    if said.len() != variables(block).count() {
        return None;
    }
    let choices = variables(block)
        .zip(said)
        .map(|(generic, said)| match generic {
            Generic::Dtype(_, class) => {
                let dtype = DType::from_name(said).filter(|d| class.dtypes().contains(d))?;
                Some(Choice::Dtype(dtype))
            }
            _ => {
                let rank = said.parse().ok().filter(|rank| *rank <= MAX_REST)?;
                Some(Choice::Rank(rank))
            }
        });
    choices.collect()
}

/// Results whose number of axes or dtype is no parameter's: no call could say theirs.
pub(super) fn undetermined(block: &Block) -> Vec<Diag> {
    let said = |ty: &Type| match &ty.kind {
        TypeKind::Tensor { dtype, axes } => {
            let rests = axes.iter().flatten().filter_map(|axis| match &axis.kind {
                DimKind::Rest(name) => Some(name.name.clone()),
                _ => None,
            });
            let mut said: BTreeSet<Arc<str>> = rests.collect();
            said.insert(dtype.name.clone());
            said
        }
        _ => BTreeSet::new(),
    };
    let known: BTreeSet<Arc<str>> = block.params.iter().flat_map(|p| said(&p.ty)).collect();
    let open = |ty: &&Type| {
        let said = said(ty);
        variables(block).find(|g| {
            let name = &g.name().name;
            said.contains(name) && !known.contains(name)
        })
    };
    let lost = block
        .ret
        .types
        .iter()
        .filter_map(|ty| Some((ty, open(&ty)?)));
    let diag = |(ty, generic): (&Type, &Generic)| {
        let (what, help) = match generic {
            Generic::Dtype(..) => (
                "dtype",
                "a result of any dtype shares the dtype of a parameter",
            ),
            _ => (
                "rank",
                "a result of any rank shares the rank of a parameter",
            ),
        };
        let text = format!("no parameter has the {what} of this result, `{ty}`");
        Diag::new(Code::ResultType, ty.span, text).help(help)
    };
    lost.map(diag).collect()
}

/// Why no instance takes the arguments.
pub(crate) enum Misfit {
    /// No numbers of axes fit.
    Ranks,
    /// This argument is of another dtype, or of one outside the variable's class, and why.
    Dtype(usize, String),
    /// Nothing says what the variable stands for.
    Open(Arc<str>),
}

/// The choices for arguments of these dtypes and ranks; `None` is no tensor.
pub(super) fn fit(block: &Block, args: &[Option<(DType, usize)>]) -> Result<Vec<Choice>, Misfit> {
    let mut dtypes: BTreeMap<&str, DType> = BTreeMap::new();
    // Per parameter: how many axes its `..`s have together, and how often each stands there.
    let mut sums: Vec<(usize, BTreeMap<&str, usize>)> = Vec::new();
    let class = |name: &str| {
        variables(block).find_map(|g| match g {
            Generic::Dtype(var, class) if var.as_str() == name => Some(*class),
            _ => None,
        })
    };
    for (at, (param, arg)) in block.params.iter().zip(args).enumerate() {
        let (TypeKind::Tensor { dtype, axes }, Some((given, rank))) = (&param.ty.kind, arg) else {
            continue;
        };
        if let Some(class) = class(dtype.as_str()) {
            let known = *dtypes.entry(dtype.as_str()).or_insert(*given);
            if known != *given {
                let why = format!("`{dtype}` is {known} by an argument before");
                return Err(Misfit::Dtype(at, why));
            }
            if !class.dtypes().contains(given) {
                let all: Vec<&str> = class.dtypes().iter().map(|d| d.name()).collect();
                let why = format!("`{dtype}` stands for {}", all.join(", "));
                return Err(Misfit::Dtype(at, why));
            }
        }
        let mut rests = BTreeMap::new();
        let axes = axes.as_deref().unwrap_or_default();
        for axis in axes {
            if let DimKind::Rest(name) = &axis.kind {
                *rests.entry(name.as_str()).or_insert(0) += 1;
            }
        }
        if !rests.is_empty() {
            let fixed = axes.len() - rests.values().sum::<usize>();
            let open = rank.checked_sub(fixed).ok_or(Misfit::Ranks)?;
            sums.push((open, rests));
        }
    }
    let ranks = ranks(sums)?;
    let choose = |generic: &Generic| {
        let name = generic.name();
        let open = || Misfit::Open(name.name.clone());
        match generic {
            Generic::Dtype(..) => {
                let dtype = dtypes.get(name.as_str()).copied();
                dtype.map(Choice::Dtype).ok_or_else(open)
            }
            _ => match ranks.get(name.as_str()).copied() {
                Some(rank) if rank > MAX_REST => Err(Misfit::Ranks),
                rank => rank.map(Choice::Rank).ok_or_else(open),
            },
        }
    };
    variables(block).map(choose).collect()
}

/// Solves sums of ranks, those with one unknown first.
fn ranks(mut sums: Vec<(usize, BTreeMap<&str, usize>)>) -> Result<BTreeMap<&str, usize>, Misfit> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    loop {
        for (open, rests) in &mut sums {
            let mut left = Some(*open);
            rests.retain(|name, times| match known.get(name) {
                None => true,
                Some(rank) => {
                    left = left.and_then(|n| n.checked_sub(rank * *times));
                    false
                }
            });
            *open = left.ok_or(Misfit::Ranks)?;
            if rests.is_empty() && *open != 0 {
                return Err(Misfit::Ranks);
            }
        }
        let single = sums.iter().find(|(_, rests)| rests.len() == 1);
        let Some((open, rests)) = single else {
            return Ok(known);
        };
        let Some((&name, &times)) = rests.iter().next() else {
            return Ok(known);
        };
        if open % times != 0 {
            return Err(Misfit::Ranks);
        }
        known.insert(name, open / times);
    }
}

/// What an instance's errors say of it, if it is not the one checked first.
pub(super) fn told(block: &Block, choices: &[Choice]) -> String {
    let said = variables(block).zip(choices).map(|(generic, choice)| {
        let name = generic.name();
        match choice {
            Choice::Rank(1) => format!("`..{name}` is 1 axis"),
            Choice::Rank(rank) => format!("`..{name}` is {rank} axes"),
            Choice::Dtype(dtype) => format!("`{name}` is {dtype}"),
        }
    });
    said.collect::<Vec<_>>().join(" and ")
}
