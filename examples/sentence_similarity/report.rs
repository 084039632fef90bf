//! The similarities as a table.

use std::fmt::Write as _;

use eindecomp::ndarray::Array2;

/// A line per sentence: its cosine with every sentence, in order, and the sentence.
pub fn similarities(sentences: &[&str], cosines: &Array2<f32>) -> String {
    let mut table = String::from("   ");
    for n in 1..=sentences.len() {
        let _ = write!(table, "{n:8}");
    }
    table.push('\n');
    for (n, (row, sentence)) in cosines.outer_iter().zip(sentences).enumerate() {
        let _ = write!(table, "{:3}", n + 1);
        for cosine in row {
            let _ = write!(table, "{cosine:8.3}");
        }
        let _ = writeln!(table, "  {sentence}");
    }
    table
}

#[cfg(test)]
mod tests {
    use eindecomp::ndarray::array;

    use super::*;

    #[test]
    fn a_line_per_sentence() {
        let table = similarities(&["One.", "Two."], &array![[1.0, -0.25], [-0.25, 1.0]]);
        let want = "          1       2
  1   1.000  -0.250  One.
  2  -0.250   1.000  Two.
";
        assert_eq!(table, want);
    }
}
