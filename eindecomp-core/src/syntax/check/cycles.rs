//! Items that come back to themselves: blocks and functions that call themselves, structs in
//! themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::syntax::ast::Ident;
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

/// An item with what it uses: the name, and where.
pub(super) struct Node<'a> {
    pub(super) name: &'a Ident,
    pub(super) uses: Vec<(&'a str, Span)>,
}

/// The names of all items that come back to themselves, and one error for those that do so together.
/// `what` an item is, what it `does`, and what to do instead.
pub(super) fn cycles<'a>(
    nodes: &[Node<'a>],
    (what, does): (&str, &str),
    help: &str,
    errors: &mut Vec<Diag>,
) -> BTreeSet<&'a str> {
    let by_name: BTreeMap<&str, &Node<'a>> = nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    let mut all = BTreeSet::new();
    for node in nodes {
        let name = node.name.as_str();
        let Some(way) = way(name, name, &by_name).filter(|_| !all.contains(name)) else {
            continue;
        };
        // Those that lead here and are reached from here are told of with it.
        let back = |other: &&Node| {
            let other = other.name.as_str();
            way_exists(name, other, &by_name) && way_exists(other, name, &by_name)
        };
        all.extend(nodes.iter().filter(back).map(|n| n.name.as_str()));
        let (_, first) = way[0];
        let between: Vec<String> = way[..way.len() - 1]
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let mut text = format!("{what}`{name}` {does} itself");
        if !between.is_empty() {
            text += &format!(" by way of {}", between.join(" and "));
        }
        let diag = Diag::new(Code::Recursion, first, text).help(help);
        errors.push(match &way[..] {
            [.., (from, _), (_, last)] => {
                diag.secondary(*last, format!("`{from}` {does} `{name}` here"))
            }
            _ => diag,
        });
    }
    all
}

/// The fewest steps from one item to another, with where each is taken.
fn way<'a>(
    from: &str,
    to: &str,
    nodes: &BTreeMap<&str, &Node<'a>>,
) -> Option<Vec<(&'a str, Span)>> {
    let (mut seen, mut queue) = (BTreeSet::new(), VecDeque::new());
    queue.push_back((from, Vec::new()));
    while let Some((at, way)) = queue.pop_front() {
        let uses = nodes.get(at).map_or(&[][..], |node| &node.uses);
        for (next, span) in uses {
            let mut way: Vec<(&'a str, Span)> = way.clone();
            way.push((*next, *span));
            if *next == to {
                return Some(way);
            }
            if seen.insert(*next) {
                queue.push_back((*next, way));
            }
        }
    }
    None
}

fn way_exists(from: &str, to: &str, nodes: &BTreeMap<&str, &Node>) -> bool {
    way(from, to, nodes).is_some()
}
