//! Blocks and structs of other programs, by the path by which this one mentions them.
//!
//! A program tells others of a block or struct by a [`Signature`], a text. Consts in it are values
//! of the other program: here they are symbols of their own (`layers::norm::WIDTH`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::instance;
use super::mentions::{self, signature_consts};
use super::tree::{Block, Clause, Field, Origin, Param, ResultVar, Struct, StructType, Type};
use super::types;
use crate::ein::Dim;
use crate::syntax::ast::{self, AttrKind, ClauseKind, Item, Path, Program};
use crate::syntax::parse::{parse_text, parse_text_at};
use crate::syntax::token::Span;

/// What is known of other programs.
#[derive(Clone, Debug, Default)]
pub struct Others {
    open: bool,
    /// A block, or its instances of several ranks.
    blocks: BTreeMap<Arc<str>, Vec<Block>>,
    /// A struct and those that it is made of.
    structs: BTreeMap<Arc<str>, Vec<Struct>>,
    /// What a const's symbol stands for: the path of the block or struct, and which of its consts.
    consts: BTreeMap<Arc<str>, (Arc<str>, usize)>,
}

impl Others {
    /// Nothing is known yet, but items that this program lacks may be elsewhere: what is said of
    /// them is trusted, and what would follow from them is not looked at.
    pub fn unseen() -> Others {
        Others {
            open: true,
            ..Others::default()
        }
    }

    /// May there be items beside those that are known?
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The block that is mentioned as `path`, or its instances.
    pub(super) fn block(&self, path: &str) -> Option<&[Block]> {
        self.blocks.get(path).map(Vec::as_slice)
    }

    /// The struct that is mentioned as `path`.
    pub(super) fn structure(&self, path: &str) -> Option<&Struct> {
        self.structs.get(path)?.first()
    }

    /// Every struct.
    pub(super) fn structs(&self) -> impl Iterator<Item = &Struct> {
        self.structs.values().flatten()
    }

    /// Where the value of a const's symbol is: the path of the block or struct, and which of its
    /// consts.
    pub fn const_place(&self, symbol: &str) -> Option<(&str, usize)> {
        let (path, at) = self.consts.get(symbol)?;
        Some((path, *at))
    }

    /// Every const's symbol with [`Others::const_place`].
    pub fn const_places(&self) -> impl Iterator<Item = (&Arc<str>, &str, usize)> {
        let places = self.consts.iter();
        places.map(|(symbol, (path, at))| (symbol, &**path, *at))
    }

    /// Takes the block or struct that `path` leads to as known by its signature, whose spans are
    /// shifted by `base`. Says nothing about one that is wrong: its own program does.
    pub fn add(&mut self, path: &Path, signature: &Signature, base: u32) {
        let (program, errors) = parse_text_at(&signature.text, base);
        let Some(first) = program.items.first().filter(|_| errors.is_empty()) else {
            return;
        };
        let text: Arc<str> = path.to_string().into();
        let consts = self.rename(&text, path, &program, first);
        let checked = types::signatures(&instance::expand_all(&program));
        if !checked.errors.is_empty() {
            return;
        }
        match first {
            Item::Block(block) => {
                let hidden = block.clauses.len() - signature.implicit.min(block.clauses.len());
                let hidden: BTreeSet<Span> =
                    block.clauses[hidden..].iter().map(|c| c.span).collect();
                let renamed = checked.blocks.into_iter().map(|block| {
                    let instance = block.name.as_str().split_once('/');
                    let name = match instance {
                        Some((_, rank)) => format!("{text}/{rank}"),
                        None => text.to_string(),
                    };
                    consts.block(block, name.into(), &hidden)
                });
                self.blocks.insert(text.clone(), renamed.collect());
            }
            Item::Struct(_) => {
                let renamed = checked.structs.into_iter().map(|s| consts.structure(s));
                let mut renamed: Vec<Struct> = renamed.collect();
                renamed.sort_by_key(|s| s.name.name != text);
                self.structs.insert(text, renamed);
            }
            _ => {}
        }
    }

    /// New symbols for the consts of a signature.
    fn rename(&mut self, text: &Arc<str>, path: &Path, program: &Program, first: &Item) -> Renamed {
        let mut renamed = Renamed {
            root: text.clone(),
            first: first.head().name.name.clone(),
            symbols: BTreeMap::new(),
            paths: BTreeMap::new(),
        };
        for (at, (name, inner)) in signature_consts(program).into_iter().enumerate() {
            let short: Arc<str> = format!("{text}::{}", inner.last()).into();
            let symbol = match self.consts.contains_key(&short) {
                true => format!("{text}::{name}").into(),
                false => short,
            };
            self.consts.insert(symbol.clone(), (text.clone(), at));
            let mut here = path.clone();
            here.segments.push(inner.last().clone());
            renamed.paths.insert(symbol.clone(), here);
            let name: Arc<str> = name.as_str().into();
            renamed.symbols.insert(name, Dim::sym(symbol));
        }
        renamed
    }
}

/// New names for what a signature mentions.
struct Renamed {
    root: Arc<str>,
    /// What the first item of the signature is called there.
    first: Arc<str>,
    symbols: BTreeMap<Arc<str>, Dim>,
    paths: BTreeMap<Arc<str>, Path>,
}

impl Renamed {
    fn dim(&self, dim: &Dim) -> Dim {
        dim.substitute(&|s| self.symbols.get(s).cloned())
    }

    /// A struct that is not the signature's own is called behind it.
    fn name(&self, name: &Arc<str>) -> Arc<str> {
        match *name == self.first {
            true => self.root.clone(),
            false => format!("{}::{name}", self.root).into(),
        }
    }

    fn ty(&self, ty: &Type) -> Type {
        match ty.substitute(&self.symbols) {
            Type::Struct(s) => Type::Struct(StructType {
                name: self.name(&s.name),
                args: s.args,
            }),
            Type::Array(element, length) => Type::Array(Box::new(self.ty(&element)), length),
            tensor => tensor,
        }
    }

    fn block(&self, block: Block, name: Arc<str>, hidden: &BTreeSet<Span>) -> Block {
        let params = block.params.iter().map(|param| Param {
            ty: self.ty(&param.ty),
            ..param.clone()
        });
        let results = block.results.iter().map(|result| ResultVar {
            ty: self.ty(&result.ty),
            ..result.clone()
        });
        let clauses = block.clauses.iter().map(|clause| Clause {
            left: self.dim(&clause.left),
            right: self.dim(&clause.right),
            origin: match hidden.contains(&clause.span) {
                true => Origin::Equal(format!("block `{}` needs it", self.root).into()),
                false => clause.origin.clone(),
            },
            ..clause.clone()
        });
        let (params, results) = (params.collect(), results.collect());
        let clauses = clauses.collect();
        let span = block.name.span;
        Block {
            name: ast::Ident { name, span },
            params,
            results,
            clauses,
            consts: self.paths.clone(),
            ..block
        }
    }

    fn structure(&self, structure: Struct) -> Struct {
        let fields = structure.fields.iter().map(|field| Field {
            ty: self.ty(&field.ty),
            ..field.clone()
        });
        let fields = fields.collect();
        let name = ast::Ident {
            name: self.name(&structure.name.name),
            span: structure.name.span,
        };
        Struct {
            name,
            fields,
            consts: self.paths.clone(),
            ..structure
        }
    }
}

/// What other programs need to know of a block or struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The item, without its statements, before the structs in it.
    pub text: String,
    /// How many of its last clauses are implicit.
    pub implicit: usize,
    /// The Rust consts in it, in the order in which [`Others::const_place`] counts them; empty for
    /// one that was read.
    pub consts: Vec<Path>,
}

impl Signature {
    /// One that another program has written.
    pub fn read(text: String, implicit: usize) -> Signature {
        Signature {
            text,
            implicit,
            consts: Vec::new(),
        }
    }

    fn write(program: &Program, implicit: usize) -> Signature {
        let consts = signature_consts(program).into_values().cloned();
        Signature {
            text: program.to_string(),
            implicit,
            consts: consts.collect(),
        }
    }

    /// The places of a block or struct that an error may show, in an order that reading its
    /// signature again does not change; the first is its name.
    pub fn places(item: &Item) -> Vec<Span> {
        match item {
            Item::Block(block) => Signature::places_of_block(block),
            Item::Struct(structure) => Signature::places_of_struct(structure),
            _ => Vec::new(),
        }
    }

    /// Those of a block.
    pub fn places_of_block(block: &ast::Block) -> Vec<Span> {
        let mut places = vec![block.head.name.span];
        for param in &block.params {
            places.extend([param.name.span, param.ty.span]);
            places.extend(types::dim_spans(&param.ty));
        }
        places.extend(block.generics.iter().map(|generic| generic.name().span));
        places.extend(block.ret.types.iter().map(|ty| ty.span));
        places.extend(block.clauses.iter().map(|clause| clause.span));
        places
    }

    /// Those of a struct.
    pub fn places_of_struct(structure: &ast::Struct) -> Vec<Span> {
        let mut places = vec![structure.head.name.span];
        for field in &structure.fields {
            places.extend([field.name.span, field.ty.span]);
        }
        places
    }

    /// Of a block; `checked` is the same block after the check, if it is right so far.
    pub fn block(block: &ast::Block, checked: Option<&Block>) -> Signature {
        let is_role = |attr: &&ast::Attr| !matches!(attr.kind, AttrKind::Doc(_));
        let bare_param = |param: &ast::Param| ast::Param {
            attrs: param.attrs.iter().filter(is_role).cloned().collect(),
            ..param.clone()
        };
        let mut bare = ast::Block {
            head: ast::Head {
                attrs: Vec::new(),
                vis: ast::Vis::Private,
                name: block.head.name.clone(),
            },
            generics: block.generics.clone(),
            params: block.params.iter().map(bare_param).collect(),
            ret: block.ret.clone(),
            clauses: block.clauses.clone(),
            stmts: Vec::new(),
            result: block.result.clone(),
            unnamed: block.unnamed.clone(),
            signature: block.signature,
            splits: block.splits.clone(),
        };
        let clauses = checked.into_iter().flat_map(|block| &block.clauses);
        let clauses = clauses.filter(|clause| clause.origin != Origin::Declared);
        // Those of the dims themselves follow from the text.
        let of_dim = |clause: &Clause| block.generics.iter().any(|g| g.name().span == clause.span);
        let clauses = clauses.filter(|clause| !of_dim(clause));
        let implicit: Vec<ast::Clause> = clauses.filter_map(reread).collect();
        let count = implicit.len();
        bare.clauses.extend(implicit);
        let program = Program {
            items: vec![Item::Block(bare)],
            ..Program::default()
        };
        Signature::write(&program, count)
    }

    /// Of a struct of `program`.
    pub fn structure(structure: &ast::Struct, program: &Program) -> Signature {
        let mut items = vec![structure.clone()];
        let mut at = 0;
        while let Some(next) = items.get(at) {
            let inner: Vec<ast::Struct> = next
                .fields
                .iter()
                .filter_map(|field| mentions::structure(&field.ty)?.as_ident())
                .filter_map(|name| {
                    program.items.iter().find_map(|item| match item {
                        Item::Struct(s) if s.head.name.name == name.name => Some(s.clone()),
                        _ => None,
                    })
                })
                .collect();
            for structure in inner {
                if items
                    .iter()
                    .all(|s| s.head.name.name != structure.head.name.name)
                {
                    items.push(structure);
                }
            }
            at += 1;
        }
        let items = items.into_iter().map(|mut structure| {
            structure.head.attrs.clear();
            structure.head.vis = ast::Vis::Private;
            Item::Struct(structure)
        });
        let program = Program {
            items: items.collect(),
            ..Program::default()
        };
        Signature::write(&program, 0)
    }
}

/// A clause as written.
fn reread(clause: &Clause) -> Option<ast::Clause> {
    let text = format!("fn f() -> f32 where {clause} {{ x }}");
    let (program, errors) = parse_text(&text);
    match program.items.into_iter().next() {
        Some(Item::Block(block)) if errors.is_empty() => {
            let clause = block.clauses.into_iter().next()?;
            matches!(clause.kind, ClauseKind::Compare(..)).then_some(clause)
        }
        _ => None,
    }
}
