use super::super::testing::random_graph;
use super::*;
use proptest::prelude::*;

const DUMP: &str = r#"eingraph {
  slot $0 = 0.125
  clause S <= 512 from "m.rs:3"
  clause 2*(D % H) + 1 == D / H - 1 from "say \"so\""
  %0 "x" = input f32[B, S]
  %1 "l.w" = weight f32[S, 4]
  %2 "at" = state i64[B]
  %3 "h" = sum[s=S; f32 where s != 0 && s < {D / H}] %0[b, s] * %1[s, e] * $0:f32 -> f32[b=B, e=4] pin split("b", 2)
  %4 "twice" = @0 * (@0 + @1) of %3[b, e], (%3[b + 1, e] else -inf) -> f32[(b=B, e=4)] pin whole
  %5 "g" = max(-%1[%2[b], 2 * e - 1] as f64 as f32, -(1.0:f32)) -> f32[b=B, "e'"=4, e=2]
  %6 "best" = argmax[v=4; f32] if(v % 2 == -3, %3[b, v], nan:f32) -> i64[b=B]
  %7 "d" = %5[b, #1, #2] - (%5[b, #1, #2] - 1e-7:f32) -> f32[b=B, e=4, e=2]
  output "y" = %4
  output "z" = %7
}
"#;

#[test]
fn every_form_prints_as_it_was_read() {
    let graph = EinGraph::parse(DUMP).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.to_string(), DUMP);
    assert_eq!(graph.verify(), Ok(()));
}

#[test]
fn errors_have_a_place() {
    let check = |from: &str, to: &str, expect: &str| {
        let error = EinGraph::parse(&DUMP.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expect, "{from} as {to}");
    };
    check(
        "%1 \"l",
        "%7 \"l",
        "line 6, column 3: number 1 is the next one",
    );
    check(
        "e] * $0",
        "q] * $0",
        "line 8, column 71: `q` does not name one index of this statement",
    );
    check(
        "argmax",
        "arg~max",
        "line 11, column 18: `~` has no meaning here",
    );
    check(
        "max(-",
        "maxx(-",
        "line 10, column 12: there is no function `maxx` of 2 arguments",
    );
    check(
        "%0[b, s]",
        "%0[b]",
        "line 8, column 3: `x` has 2 axes, but `h` gives 1 indices",
    );
    check(
        "\"z\"",
        "\"y\"",
        "line 14, column 3: the name `y` is used twice",
    );
    check(
        "argmax",
        "mean",
        "line 11, column 3: `mean` is lowered to other aggregations before it gets here",
    );
    let deep = DUMP.replacen("max(-", &"(".repeat(100_000), 1);
    assert_eq!(
        EinGraph::parse(&deep).unwrap_err().kind,
        ParseErrorKind::TooLarge
    );
    let long = DUMP.replacen("max(-", &"1 + ".repeat(100_000), 1);
    assert_eq!(
        EinGraph::parse(&long).unwrap_err().kind,
        ParseErrorKind::TooLarge
    );
}

#[test]
fn no_prefix_parses_or_panics() {
    for (at, _) in DUMP.trim_end().char_indices() {
        assert!(EinGraph::parse(&DUMP[..at]).is_err());
    }
}

proptest! {
    #[test]
    fn parse_undoes_print(seed: u64, statements in 1..6usize) {
        let graph = random_graph(seed, statements).graph;
        let text = graph.to_string();
        match EinGraph::parse(&text) {
            Ok(back) => prop_assert_eq!(back, graph),
            Err(e) => prop_assert!(false, "{}\n{}", e, text),
        }
    }

    #[test]
    fn mutations_never_panic(edits in prop::collection::vec((0..900usize, any::<char>(), 0..4usize), 1..4)) {
        const BYTES: &[u8] = b"%@$#[](){}=,;:+-*/<>!&|\"0149.eis \n";
        let mut text: Vec<char> = DUMP.chars().collect();
        for (at, any, kind) in edits {
            let at = at % text.len();
            match kind {
                0 => { text.remove(at); }
                1 => text[at] = BYTES[any as usize % BYTES.len()] as char,
                2 => text.insert(at, BYTES[any as usize % BYTES.len()] as char),
                _ => text[at] = any,
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(graph) = EinGraph::parse(&text) {
            prop_assert_eq!(EinGraph::parse(&graph.to_string()), Ok(graph));
        }
    }
}
