//! The canonical text of a bound graph: what plan keys are made of.

use super::BoundGraph;
use super::display::dump;

impl BoundGraph {
    /// The dump with labels as numbers, and without names and the values of numbered literals:
    /// equal for graphs that differ in these alone. Pins are a part of the plan key of their own.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        dump(self, &mut text, false).expect("writing to a string does not fail");
        text
    }
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
    }

    const DUMP: &str = r#"eingraph {
        slot $0 = 0.125
        clause B <= 4 from "here"
        %0 "x" = input f32[B, 3]
        %1 "y" = sum[j=3; f64] %0[i, j] * $0:f32 -> f32[i=B]
        output "y" = %1
    }"#;

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
