//! Calls of blocks of other programs, and their structs.
//!
//! Every block and struct has a macro that holds its signature, and is reached by the path of the
//! block or struct. A program that mentions some of others visits these macros one after the
//! other; each hands what it holds on to [`link`], the last time with everything that is needed to
//! check the calls. The items of the program do not wait for that.

use eindecomp_core::syntax::ast::{self, Program, Vis};
use eindecomp_core::syntax::check::{self, Checked, Mentions, Others, Signature};
use eindecomp_core::syntax::parse::parse_text_at;
use eindecomp_core::syntax::{Diag, Span, literal, parse};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::obligations::obligations;
use crate::tokens::{Elsewhere, Ends, Source};
use crate::{report, rust};

/// A block or struct of another program.
#[derive(Clone)]
struct Mention {
    structure: bool,
    path: TokenStream,
}

impl Mention {
    fn all(source: &Source, mentions: &Mentions) -> Vec<Mention> {
        let of = |structure| {
            move |path: &&ast::Path| Mention {
                structure,
                path: rust::path(source, path),
            }
        };
        let structs = mentions.structs.values().map(|path| of(true)(path));
        let blocks = mentions.blocks.values().map(|path| of(false)(path));
        structs.chain(blocks).collect()
    }

    /// Reads `struct path` or `fn path`.
    fn read(group: &Group) -> Option<Mention> {
        let mut trees = group.stream().into_iter();
        let structure = match trees.next()? {
            TokenTree::Ident(kind) => kind == "struct",
            _ => return None,
        };
        let path = trees.collect();
        Some(Mention { structure, path })
    }

    fn write(&self) -> TokenStream {
        let (kind, path) = (
            if self.structure {
                quote!(struct)
            } else {
                quote!(fn)
            },
            &self.path,
        );
        quote!({ #kind #path })
    }

    /// The call of its macro.
    fn visit(
        &self,
        krate: &Ident,
        rest: TokenStream,
        done: TokenStream,
        program: TokenStream,
    ) -> TokenStream {
        let (path, own) = (&self.path, self.write());
        let state = quote!({ #krate #own { #rest } { #done } { #program } });
        match self.structure {
            true => quote!(#path! #state),
            false => {
                let span = path.clone().into_iter().last().map(|tree| tree.span());
                let name = Ident::new(
                    "__signature",
                    span.unwrap_or_else(proc_macro2::Span::call_site),
                );
                quote!(#path::#name! #state)
            }
        }
    }

    /// The value that stands for it at run time.
    fn value(&self, hidden: &TokenStream) -> TokenStream {
        let path = &self.path;
        match self.structure {
            true => quote!(<#path as #hidden::Fields>::STRUCT),
            false => value(path),
        }
    }

    /// The path as the language writes it.
    fn text(&self) -> String {
        let trees = self.path.clone().into_iter();
        trees.map(|tree| tree.to_string()).collect()
    }
}

/// The name of the macro that holds the signature of the item `name`: no other of the crate has
/// it, wherever it stands.
pub fn macro_name(source: &Source, name: &ast::Ident) -> Ident {
    let span = source.ends(name.span).0;
    let mut hasher = DefaultHasher::new();
    format!("{span:?}").hash(&mut hasher);
    let plain = name.as_str().trim_start_matches("r#");
    let hash = hasher.finish();
    format_ident!(
        "__ein_{plain}_{hash:016x}",
        span = proc_macro2::Span::call_site()
    )
}

/// The macro that holds a signature and the places that others may show of it; without one, what
/// mentions the item is not checked.
pub fn signature_macro(
    source: &Source,
    name: &Ident,
    vis: &Vis,
    cfgs: &TokenStream,
    signature: Option<(&Signature, &[Span])>,
) -> TokenStream {
    let e = source.krate();
    let export = matches!(vis, Vis::Public(_)).then(|| quote!(#[macro_export]));
    let body = signature.map(|(Signature { text, implicit, .. }, places)| {
        let ends = places.iter().flat_map(|place| {
            let (start, end) = source.ends(*place);
            [Ident::new("from", start), Ident::new("to", end)]
        });
        quote!(#e::__private::link! { [#text #implicit #(#ends)*] $($rest)* })
    });
    quote! {
        #cfgs
        #[doc(hidden)]
        #[allow(unused_macros, non_local_definitions)]
        #export
        macro_rules! #name { ($($rest:tt)*) => { #body }; }
    }
}

/// The const of its module that stands for a block where it is called.
pub fn constant() -> Ident {
    format_ident!("EIN0039_this_block_calls_itself")
}

/// What stands for the block at `path`.
pub fn value(path: &TokenStream) -> TokenStream {
    let constant = constant();
    quote!(#path::#constant)
}

/// The function by which a block tells what struct its parameter at place `at` is made of.
pub fn struct_of_param(at: usize, span: proc_macro2::Span) -> Ident {
    Ident::new(&format!("struct_of_parameter_{at}"), span)
}

/// How far such a macro can be seen.
pub fn macro_vis(vis: &Vis) -> TokenStream {
    match vis {
        Vis::Public(_) => quote!(pub),
        _ => quote!(pub(crate)),
    }
}

/// The consts of a signature, in the order in which others count them.
pub fn signature_consts(source: &Source, signature: &Signature) -> TokenStream {
    let consts = signature.consts.iter().map(|path| rust::path(source, path));
    let e = source.krate();
    quote!(&[#((#consts) as #e::__private::core::primitive::i64),*])
}

/// What a program's static says of the others.
pub fn values(source: &Source, mentions: &Mentions) -> TokenStream {
    let e = source.krate();
    let hidden = quote!(#e::__private);
    let all = Mention::all(source, mentions);
    let pairs = all.iter().map(|mention| {
        let (text, value) = (mention.text(), mention.value(&hidden));
        quote!((#text, #value))
    });
    quote!(&[#(#pairs),*])
}

/// Visits the macros of all that `program` mentions.
pub fn visit(source: &Source, mentions: &Mentions, program: TokenStream) -> TokenStream {
    let all = Mention::all(source, mentions);
    let Some((first, rest)) = all.split_first() else {
        return TokenStream::new();
    };
    let rest = rest.iter().map(Mention::write).collect();
    first.visit(source.krate(), rest, TokenStream::new(), program)
}

/// One step of a visit: `[signature] krate {mention} {rest} {done} {program}`.
pub fn link(input: TokenStream) -> TokenStream {
    step(input).unwrap_or_default()
}

fn step(input: TokenStream) -> Option<TokenStream> {
    let mut trees = input.into_iter();
    let signature = group(trees.next()?)?;
    let krate = match trees.next()? {
        TokenTree::Ident(krate) => krate,
        _ => return None,
    };
    let mention = group(trees.next()?)?;
    let (rest, done) = (group(trees.next()?)?, group(trees.next()?)?);
    let program = group(trees.next()?)?.stream();
    let mut done = done.stream();
    done.extend([TokenTree::from(mention), TokenTree::from(signature)]);
    let mut rest = rest.stream().into_iter();
    match rest.next() {
        Some(next) => {
            let next = Mention::read(&group(next)?)?;
            Some(next.visit(&krate, rest.collect(), done, program))
        }
        None => Some(finish(krate, done, program)),
    }
}

fn group(tree: TokenTree) -> Option<Group> {
    match tree {
        TokenTree::Group(group) => Some(group),
        _ => None,
    }
}

/// Checks a program with all that it mentions, and reports what was not known before.
fn finish(krate: Ident, done: TokenStream, program: TokenStream) -> TokenStream {
    let (mut source, buffer, _) = Source::read(krate, program);
    let (program, _) = parse(buffer);
    let mut others = Others::unseen();
    let mut mentions = BTreeMap::new();
    let mut trees = done.into_iter().filter_map(group);
    while let Some((mention, signature)) = trees.next().zip(trees.next()) {
        let (Some(mention), Some((signature, ends))) =
            (Mention::read(&mention), read_signature(&signature))
        else {
            continue;
        };
        let text = mention.text();
        let base = source.end();
        others.add(&ast::Path::from_text(&text), &signature, base);
        let item = parse_text_at(&signature.text, base)
            .0
            .items
            .into_iter()
            .next();
        let places = item.iter().flat_map(Signature::places);
        source.add(Elsewhere {
            base,
            length: signature.text.len() as u32,
            places: places.zip(ends).collect(),
        });
        mentions.insert(text, mention);
    }
    let before = check::check_with(&program, &Others::unseen());
    let after = check::check_with(&program, &others);
    let mut errors = after.errors.clone();
    let told = |diag: &Diag| {
        (before.errors.iter()).any(|b| (b.code, b.primary) == (diag.code, diag.primary))
    };
    errors.retain(|diag| !told(diag));
    let mut out = report::errors(&source, &errors);
    if after.errors.is_empty() {
        out.extend(report::warnings(&source, &after));
        let own = crate::expand::consts(&before);
        let value = |symbol: &str| match others.const_place(symbol) {
            Some((path, at)) => {
                let value = mentions.get(path)?.value(&quote!(__ein));
                Some(quote!(#value.value(#at)))
            }
            None => {
                let path = rust::path(&source, own.get(symbol)?);
                Some(quote!(((#path) as __ein::core::primitive::i64)))
            }
        };
        let known: Vec<_> = before
            .blocks
            .iter()
            .flat_map(|block| &block.obligations)
            .collect();
        let wanted = |obligation: &_| !known.contains(&obligation);
        out.extend(obligations(&source, &after, &value, &wanted));
        out.extend(same_structs(&source, &program, &after, &mentions));
    }
    out
}

/// A signature, and where its places start and end.
fn read_signature(group: &Group) -> Option<(Signature, Vec<Ends>)> {
    let mut trees = group.stream().into_iter();
    let (text, implicit) = (trees.next()?.to_string(), trees.next()?.to_string());
    let implicit = implicit.trim_end_matches("usize").parse().ok()?;
    let signature = Signature::read(literal::string(&text)?, implicit);
    let mut ends = Vec::new();
    while let Some((start, end)) = trees.next().zip(trees.next()) {
        ends.push((start.span(), end.span()));
    }
    Some((signature, ends))
}

/// Whether an argument's struct is the parameter's is for rustc to say.
fn same_structs(
    source: &Source,
    program: &Program,
    checked: &Checked,
    mentions: &BTreeMap<String, Mention>,
) -> TokenStream {
    let rust_type = |name: &str| {
        let local = program.items.iter().find_map(|item| match item {
            ast::Item::Struct(s) if s.head.name.as_str() == name => Some(&s.head.name),
            _ => None,
        });
        match local {
            Some(local) => {
                let local = rust::ident(source, local);
                Some(quote!(#local))
            }
            None => Some(mentions.get(name)?.path.clone()),
        }
    };
    let mut out = TokenStream::new();
    for call in checked.blocks.iter().flat_map(|block| &block.foreign) {
        let Some(callee) = mentions.get(&call.path.to_string()) else {
            continue;
        };
        let callee = &callee.path;
        for (at, (arg, span)) in call.args.iter().zip(&call.arg_spans).enumerate() {
            let Some(ty) = arg.structure().and_then(|s| rust_type(&s.name)) else {
                continue;
            };
            // All on the argument, where rustc says what differs.
            let start = source.ends(*span).0;
            let callee = rust::located(callee.clone(), start);
            let function = struct_of_param(at, start);
            let function = quote_spanned!(start=> #callee::Called::#function);
            out.extend(quote!(const _: fn(#ty) = #function;));
        }
    }
    out
}
