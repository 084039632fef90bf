//! The canonical text of a bound graph: what plan keys are made of.

use std::sync::{Arc, OnceLock};

use memchr::{memchr2, memchr3};

use super::BoundGraph;
use super::display::dump;
use crate::quick::{Table, lines};

impl BoundGraph {
    /// The dump with labels as numbers, and without names and the values of numbered literals:
    /// equal for graphs that differ in these alone. Pins are a part of the plan key of their own.
    pub fn canonical(&self) -> &Arc<str> {
        self.canon.text.get_or_init(|| {
            let mut text = String::with_capacity(100 * self.nodes().len());
            dump(self, &mut text, false).expect("writing to a string does not fail");
            text.into()
        })
    }

    /// Per node a number, equal where the nodes' lines in the canonical text are: but for the tensors
    /// that stand there, and which literals. Such nodes have one shape and are computed in one way.
    pub fn kinds(&self) -> &[u32] {
        self.canon
            .kinds
            .get_or_init(|| kinds(self.canonical()).into())
    }
}

/// Each made when it is first asked for. They follow from the graph: two of them are never what tells
/// graphs apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Lazy {
    text: OnceLock<Arc<str>>,
    kinds: OnceLock<Arc<[u32]>>,
}

impl PartialEq for Lazy {
    fn eq(&self, _: &Lazy) -> bool {
        true
    }
}

impl Eq for Lazy {}

/// Of the lines that are nodes.
fn kinds(text: &str) -> Vec<u32> {
    let mut known: Table<Vec<u8>, u32> = Table::default();
    let mut line_without = Vec::new();
    let mut kind = |line: &str| {
        line_without.clear();
        without_numbers(line.as_bytes(), &mut line_without);
        let next = known.len() as u32;
        match known.get(&line_without) {
            Some(&kind) => kind,
            None => *known.entry(line_without.clone()).or_insert(next),
        }
    };
    let nodes = lines(text).filter(|line| line.starts_with("  %"));
    nodes.map(&mut kind).collect()
}

/// Appends a line without the numbers of tensors (`%2`) and of literals (`$0`).
fn without_numbers(mut line: &[u8], out: &mut Vec<u8>) {
    let mut quoted = false;
    let next = |line: &[u8], quoted| match quoted {
        true => memchr2(b'"', b'\\', line),
        false => memchr3(b'"', b'%', b'$', line),
    };
    while let Some(at) = next(line, quoted) {
        let (head, tail) = line.split_at(at + 1);
        out.extend_from_slice(head);
        let skipped = match line[at] {
            b'"' => {
                quoted = !quoted;
                0
            }
            b'\\' => {
                out.extend(tail.first());
                tail.len().min(1)
            }
            _ => tail.iter().take_while(|b| b.is_ascii_digit()).count(),
        };
        line = &tail[skipped..];
    }
    out.extend_from_slice(line);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::EinGraph;

    fn canonical(text: &str) -> String {
        let dims = BTreeMap::from([("B".into(), 2), ("N".into(), 2)]);
        EinGraph::parse(text)
            .unwrap()
            .bind(&dims)
            .unwrap()
            .canonical()
            .to_string()
    }

    const DUMP: &str = r#"eingraph {
        slot $0 = 0.125
        clause B <= 4 from "here"
        %0 "x" = input f32[B, 3]
        %1 "y" = sum[j=3; f64] %0[i, j] * $0:f32 -> f32[i=B]
        output "y" = %1
    }"#;

    #[test]
    fn kinds_are_lines_but_for_tensors_and_literals() {
        let text = r#"eingraph {
            slot $0 = 0.125
            slot $1 = 0.5
            %0 "x" = input f32[2, 3]
            %1 "w" = weight f32[2, 3]
            %2 "v" = weight f32[2, 3]
            %3 "a" = %0[i, j] * %1[i, j] * $0:f32 -> f32[i=2, j=3]
            %4 "b" = %3[s, t] * %2[s, t] * $1:f32 -> f32[s=2, t=3]
            %5 "c" = %4[i, j] * %4[i, j] * 2:f32 -> f32[i=2, j=3]
            %6 "d" = %5[j, i] -> f32[i=3, j=2]
            output "y" = %6
        }"#;
        let graph = EinGraph::parse(text).unwrap();
        let graph = graph.bind(&BTreeMap::new()).unwrap();
        assert_eq!(graph.kinds(), [0, 1, 1, 2, 2, 3, 4]);
        // made or not, it is the same graph
        assert_eq!(
            graph,
            EinGraph::parse(text)
                .unwrap()
                .bind(&BTreeMap::new())
                .unwrap()
        );
    }

    #[test]
    fn names_and_literals_do_not_matter() {
        let expect = "eingraph {\n  %0 = input f32[2, 3]\n  \
            %1 = sum[#1=3; f64] %0[#0, #1] * $0:f32 -> f32[#0=2]\n  output = %1\n}\n";
        assert_eq!(canonical(DUMP), expect);
        let renamed = DUMP.replace("\"x\"", "\"input\"").replace("\"y\"", "\"z\"");
        let renamed = renamed
            .replace("B", "N")
            .replace("i=", "row=")
            .replace("[i,", "[row,");
        assert_eq!(canonical(&renamed.replace("0.125", "-3.5")), expect);
    }

    #[test]
    fn accumulators_and_extents_do() {
        let wide = canonical(DUMP);
        assert_ne!(wide, canonical(&DUMP.replace("f64]", "f32]")));
        assert_ne!(
            wide,
            canonical(
                &DUMP
                    .replace("=B]", "=2]")
                    .replace("[B, 3]", "[2, 4]")
                    .replace("j=3", "j=4")
            )
        );
    }
}
