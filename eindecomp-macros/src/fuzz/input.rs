//! Where inputs come from.

use std::fmt;
use std::path::Path;

use eindecomp_core::graph::testing::Rng;
use eindecomp_core::syntax::lex::lex;
use eindecomp_core::syntax::token::{Delim, Tok, TokenBuffer};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

use super::{grammar, tokens};

/// How an input was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A program with edits of tokens and subtrees: brackets are balanced.
    Edited,
    /// A program with edits of tokens, brackets among them.
    Unbalanced,
    /// A random production of the grammar.
    Grammar,
    /// Random trees of tokens, groups without brackets among them.
    Trees,
    /// A program with edits of characters.
    Text,
}

const KINDS: [Kind; 10] = [
    Kind::Edited,
    Kind::Edited,
    Kind::Edited,
    Kind::Edited,
    Kind::Grammar,
    Kind::Grammar,
    Kind::Grammar,
    Kind::Unbalanced,
    Kind::Trees,
    Kind::Text,
];

/// A token, or a group of them. `None` are groups that another macro leaves around an argument.
#[derive(Clone, Debug)]
enum Node {
    Leaf(String),
    Group(Option<Delim>, Vec<Node>),
}

#[derive(Clone, Debug)]
enum Form {
    Tree(Vec<Node>),
    Text(String),
}

/// One input.
#[derive(Clone, Debug)]
pub struct Input {
    kind: Kind,
    form: Form,
}

impl Input {
    /// A text.
    pub fn of(text: &str) -> Input {
        Input {
            kind: Kind::Text,
            form: Form::Text(text.to_owned()),
        }
    }

    /// How it was made.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// As text, if it has one.
    pub fn text(&self) -> Option<String> {
        match &self.form {
            Form::Text(text) => Some(text.clone()),
            Form::Tree(nodes) => {
                let mut out = String::new();
                write(nodes, &mut out).then_some(out)
            }
        }
    }

    /// As what the macro gets, if Rust has such tokens.
    pub fn stream(&self) -> Option<TokenStream> {
        let program = match &self.form {
            Form::Text(text) => text.parse().ok()?,
            Form::Tree(nodes) => stream(nodes)?,
        };
        let krate = TokenTree::Ident(Ident::new("eindecomp", Span::call_site()));
        let group = TokenTree::Group(Group::new(Delimiter::Brace, program));
        Some([krate, group].into_iter().collect())
    }

    /// Inputs that have a part of it, the smallest first.
    pub fn smaller(&self) -> Vec<Input> {
        let forms: Vec<Form> = match &self.form {
            Form::Tree(nodes) => {
                let mut out = Vec::new();
                parts(nodes, &mut |nodes| out.push(nodes));
                out.sort_by_key(|nodes| size(nodes));
                out.into_iter().map(Form::Tree).collect()
            }
            Form::Text(text) => {
                let chars: Vec<char> = text.chars().collect();
                let mut out = Vec::new();
                let mut width = chars.len().div_ceil(2);
                while width > 0 {
                    for at in (0..chars.len()).step_by(width) {
                        let end = (at + width).min(chars.len());
                        let left = chars[..at].iter().chain(&chars[end..]);
                        out.push(Form::Text(left.collect()));
                    }
                    width = if width == 1 { 0 } else { width.div_ceil(2) };
                }
                out
            }
        };
        let kind = self.kind;
        forms.into_iter().map(|form| Input { kind, form }).collect()
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Text(text) => write!(f, "{text}"),
            Form::Tree(nodes) => {
                let mut out = String::new();
                let plain = write(nodes, &mut out);
                let note = if plain {
                    ""
                } else {
                    " (⟨⟩ are groups without brackets)"
                };
                write!(f, "{out}{note}")
            }
        }
    }
}

fn size(nodes: &[Node]) -> usize {
    let each = |node: &Node| match node {
        Node::Leaf(_) => 1,
        Node::Group(_, inner) => 2 + size(inner),
    };
    nodes.iter().map(each).sum()
}

/// Writes the nodes; false if text has no such groups.
fn write(nodes: &[Node], out: &mut String) -> bool {
    let mut plain = true;
    for node in nodes {
        match node {
            Node::Leaf(text) => out.push_str(text),
            Node::Group(delim, inner) => {
                out.push_str(delim.map_or("⟨", Delim::open));
                plain &= write(inner, out) && delim.is_some();
                out.push_str(delim.map_or("⟩", Delim::close));
            }
        }
        out.push(' ');
    }
    plain
}

fn stream(nodes: &[Node]) -> Option<TokenStream> {
    let mut out = TokenStream::new();
    for node in nodes {
        match node {
            Node::Leaf(text) => match text.parse::<i64>() {
                // No source has such a literal, but a macro may make one.
                Ok(n) if n < 0 => out.extend([TokenTree::from(Literal::i64_unsuffixed(n))]),
                _ => out.extend(text.parse::<TokenStream>().ok()?),
            },
            Node::Group(delim, inner) => {
                let delim = match delim {
                    Some(Delim::Paren) => Delimiter::Parenthesis,
                    Some(Delim::Bracket) => Delimiter::Bracket,
                    Some(Delim::Brace) => Delimiter::Brace,
                    None => Delimiter::None,
                };
                out.extend([TokenTree::from(Group::new(delim, stream(inner)?))]);
            }
        }
    }
    Some(out)
}

/// Every tree with one node less, or with a group's content in place of the group.
fn parts(nodes: &[Node], found: &mut dyn FnMut(Vec<Node>)) {
    for (at, node) in nodes.iter().enumerate() {
        let with = |middle: &[Node]| [&nodes[..at], middle, &nodes[at + 1..]].concat();
        found(with(&[]));
        if let Node::Group(delim, inner) = node {
            found(with(inner));
            parts(inner, &mut |inner| {
                found(with(&[Node::Group(*delim, inner)]))
            });
        }
    }
}

fn tree(buffer: &TokenBuffer, from: usize, to: usize) -> Vec<Node> {
    let (mut nodes, mut at) = (Vec::new(), from);
    while at < to {
        match &buffer.tokens()[at].tok {
            Tok::Open(delim) => {
                let close = buffer.partner(at);
                nodes.push(Node::Group(Some(*delim), tree(buffer, at + 1, close)));
                at = close + 1;
            }
            tok => {
                nodes.push(Node::Leaf(tok.to_string()));
                at += 1;
            }
        }
    }
    nodes
}

fn tree_of(text: &str) -> Vec<Node> {
    let (buffer, _) = lex(text);
    tree(&buffer, 0, buffer.tokens().len())
}

/// A group to enter at random; `None` is to stay. A large one is entered more often.
fn enter(nodes: &[Node], rng: &mut Rng) -> Option<usize> {
    let full = |at: &usize| matches!(&nodes[*at], Node::Group(_, inner) if !inner.is_empty());
    let groups: Vec<usize> = (0..nodes.len()).filter(full).collect();
    if groups.is_empty() || rng.chance(4) {
        return None;
    }
    let weights = groups.iter().map(|&at| size(&nodes[at..=at]));
    let weights: Vec<usize> = weights.collect();
    let mut left = rng.below(weights.iter().sum());
    for (&at, weight) in groups.iter().zip(weights) {
        if left < weight {
            return Some(at);
        }
        left -= weight;
    }
    None
}

/// The list of nodes at a random place.
fn pick<'a>(nodes: &'a mut Vec<Node>, rng: &mut Rng) -> &'a mut Vec<Node> {
    let Some(at) = enter(nodes, rng) else {
        return nodes;
    };
    match &mut nodes[at] {
        Node::Group(_, inner) => pick(inner, rng),
        Node::Leaf(_) => unreachable!("groups were chosen"),
    }
}

/// The same, to read.
fn part<'a>(nodes: &'a [Node], rng: &mut Rng) -> &'a [Node] {
    match enter(nodes, rng).map(|at| &nodes[at]) {
        Some(Node::Group(_, inner)) => part(inner, rng),
        _ => nodes,
    }
}

/// Programs to start from.
pub struct Seeds {
    texts: Vec<String>,
    trees: Vec<Vec<Node>>,
}

impl Seeds {
    /// The programs of the corpus.
    pub fn read() -> Seeds {
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../eindecomp-core");
        let mut texts = vec![
            std::fs::read_to_string(core.join("src/syntax/parse/tour.ein")).expect("the tour"),
        ];
        let [right, wrong] = ["right", "wrong"].map(|folder| {
            let folder = core.join("tests/programs").join(folder);
            let files = std::fs::read_dir(folder).expect("the corpus");
            let mut files: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
            files.sort();
            let mut programs = Vec::new();
            for file in files {
                let text = std::fs::read_to_string(file).expect("a file of the corpus");
                let cases = text.split("//# ").skip(1);
                programs.extend(cases.map(|case| {
                    let lines = case.lines().skip(1);
                    let lines = lines.filter(|line| !line.starts_with("//"));
                    lines.flat_map(|line| [line, "\n"]).collect::<String>()
                }));
            }
            programs
        });
        // As many right ones as wrong ones, however many of these there are.
        texts.extend(right.iter().cycle().take(wrong.len()).cloned());
        texts.extend(wrong);
        // Programs at the bounds of nesting would be most of the work.
        texts.retain(|text| text.len() < 4000);
        let trees = texts.iter().map(|text| tree_of(text)).collect();
        Seeds { texts, trees }
    }

    /// The input number `number`.
    pub fn input(&self, number: u64) -> Input {
        let mut rng = Rng::new(number);
        let kind = rng.one_of(&KINDS);
        let form = match kind {
            Kind::Edited => Form::Tree(self.edited(&mut rng)),
            Kind::Unbalanced => Form::Text(self.unbalanced(&mut rng)),
            Kind::Grammar => Form::Tree(tree_of(&grammar::program(&mut rng))),
            Kind::Trees => {
                let deep = 1 + rng.below(5);
                Form::Tree(self.random(&mut rng, deep))
            }
            Kind::Text => Form::Text(self.characters(&mut rng)),
        };
        Input { kind, form }
    }

    fn leaf(&self, rng: &mut Rng) -> Node {
        Node::Leaf(rng.one_of(tokens::TOKENS).to_owned())
    }

    /// A node of some program.
    fn borrowed(&self, rng: &mut Rng) -> Node {
        if rng.chance(3) {
            return self.leaf(rng);
        }
        match part(self.tree(rng), rng) {
            [] => self.leaf(rng),
            nodes => rng.one_of(nodes),
        }
    }

    /// Some program.
    fn tree(&self, rng: &mut Rng) -> &[Node] {
        &self.trees[rng.below(self.trees.len())]
    }

    fn edited(&self, rng: &mut Rng) -> Vec<Node> {
        let mut nodes = self.tree(rng).to_vec();
        for _ in 0..rng.below(6) {
            let other = self.borrowed(rng);
            let deep = rng.chance(3);
            let list = pick(&mut nodes, rng);
            if list.is_empty() {
                list.push(other);
                continue;
            }
            let (a, b) = (rng.below(list.len()), rng.below(list.len()));
            match rng.below(9) {
                0 => drop(list.remove(a)),
                1 => list.insert(b, list[a].clone()),
                2 => list.swap(a, b),
                3 | 4 => list[a] = other,
                5 => list.insert(a, other),
                6 => {
                    let delim = rng.one_of(&[
                        Some(Delim::Paren),
                        Some(Delim::Bracket),
                        Some(Delim::Brace),
                        Some(Delim::Paren),
                        None,
                    ]);
                    let (a, b) = (a.min(b), a.max(b));
                    let inner: Vec<Node> = list.drain(a..=b).collect();
                    list.insert(a, Node::Group(delim, inner));
                }
                7 => {
                    if let Node::Group(_, inner) = &list[a] {
                        let inner = inner.clone();
                        list.splice(a..=a, inner);
                    }
                }
                _ => {
                    // A run of another program's nodes.
                    let source = part(self.tree(rng), rng);
                    let start = rng.below(source.len().max(1));
                    let most = if deep { 20 } else { 4 };
                    let run = source.iter().skip(start).take(1 + rng.below(most));
                    let run: Vec<Node> = run.cloned().collect();
                    list.splice(a..a, run);
                }
            }
        }
        nodes
    }

    fn unbalanced(&self, rng: &mut Rng) -> String {
        let (buffer, _) = lex(&rng.one_of(&self.texts));
        let mut tokens: Vec<String> = buffer.tokens().iter().map(|t| t.tok.to_string()).collect();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(tokens.len().max(1));
            let word = rng.one_of(tokens::TOKENS).to_owned();
            match rng.below(6) {
                _ if tokens.is_empty() => tokens.push(word),
                0 => drop(tokens.remove(at)),
                1 => tokens[at] = word,
                2 => tokens.insert(at, word),
                3 => tokens.insert(at, rng.one_of(&["(", ")", "[", "]", "{", "}"]).into()),
                4 => tokens.truncate(at),
                _ => {
                    let other = rng.below(tokens.len());
                    tokens.swap(at, other);
                }
            }
        }
        tokens.join(if rng.chance(8) { "" } else { " " })
    }

    fn random(&self, rng: &mut Rng, deep: usize) -> Vec<Node> {
        let most = 2 + rng.below(20);
        (0..most)
            .map(|_| match rng.below(8) {
                0 if deep > 0 => {
                    let delim = rng.one_of(&[
                        Some(Delim::Paren),
                        Some(Delim::Bracket),
                        Some(Delim::Brace),
                        None,
                    ]);
                    Node::Group(delim, self.random(rng, deep - 1))
                }
                1 => self.borrowed(rng),
                _ => self.leaf(rng),
            })
            .collect()
    }

    fn characters(&self, rng: &mut Rng) -> String {
        const PIECES: [&str; 24] = [
            "\"", "'", "r#\"", "/*", "*/", "//", "///", "/**", "é", "∑", "\u{0}", "\u{2028}", "\r",
            "\t", "\\", "𝛼", "0x", "1e", "..", "r#", "b\"", "`", "\u{feff}", "_",
        ];
        let mut chars: Vec<char> = rng.one_of(&self.texts).chars().collect();
        for _ in 0..1 + rng.below(5) {
            let at = rng.below(chars.len() + 1);
            let end = (at + rng.below(12)).min(chars.len());
            match rng.below(4) {
                0 => drop(chars.drain(at..end)),
                1 => {
                    let copy = chars[at..end].to_vec();
                    let to = rng.below(chars.len() + 1);
                    chars.splice(to..to, copy);
                }
                2 => chars.truncate(at),
                _ => drop(chars.splice(at..at, rng.one_of(&PIECES).chars())),
            }
        }
        chars.into_iter().collect()
    }
}
