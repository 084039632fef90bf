//! What is said of a text that is no graph.

use super::*;

fn error(source: &str, block: &str) -> TextError {
    EinGraph::from_text(source, block, &Consts::new()).expect_err("a wrong text")
}

#[test]
fn each_error_of_a_text_comes_with_its_line() {
    let source = "fn f<dim N>(x: f32[N]) -> f32[N] {\n    let y[n] = x[k];\n    y\n}\n\n\
                  fn g<dim N>(x: f32[N] v: f32[N]) -> f32[N] {\n    let y[n] = x[n] * v[n];\n    y\n}\n";
    let error = error(source, "f");
    insta::assert_snapshot!(error, @r"
    error[EIN0002]: index `k` is neither on the left nor reduced
     --> 2:18
    2 |     let y[n] = x[k];
      |                  ^
      help: did you mean `x[n]`?
      docs: eindecomp::errors::EIN0002

    error[EIN0013]: expected `,` or `)`, found `v`
     --> 6:23
    6 | fn g<dim N>(x: f32[N] v: f32[N]) -> f32[N] {
      |                       ^
      help: add `,`
      docs: eindecomp::errors::EIN0013
    ");
    // `unwrap` shows it as it is displayed.
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn blocks_are_found_by_name_and_instance() {
    let source = "fn norm<dim N, T: Float>(x: T[N]) -> T[N] { let y[n] = x[n] / sum[n2] x[n2]; y }\n\
                  fn twice<dim N>(x: f32[N]) -> f32[N] { let y[n] = x[n] + x[n]; y }\n";
    insta::assert_snapshot!(error(source, "model"), @"there is no block `model`: the text has `norm`, `twice`");
    insta::assert_snapshot!(error(source, "norm"), @"block `norm` is generic: name an instance, such as `norm/f32`, `norm/f64`, `norm/bf16`");
    insta::assert_snapshot!(error("", "norm"), @"there is no block `norm`: the text has none");
    assert!(EinGraph::from_text(source, "norm/bf16", &Consts::new()).is_ok());
    insta::assert_snapshot!(error(source, "norm/i32"), @"there is no block `norm/i32`: the text has `norm`, `twice`");
}

#[test]
fn of_many_errors_the_first_are_shown() {
    let statements: String = (0..60)
        .map(|i| format!("let z[b] = nowhere{i}[b];\n"))
        .collect();
    let source = format!("fn f<dim B>(x: f32[B]) -> f32[B] {{ {statements} x }}");
    let shown = error(&source, "f").to_string();
    let TextError::Program { errors, .. } = error(&source, "f") else {
        panic!("{shown}")
    };
    assert!(errors.len() >= 60, "{}", errors.len());
    assert_eq!(shown.matches("error[").count(), 50);
    assert!(
        shown.ends_with(&format!("\n\n{} more errors", errors.len() - 50)),
        "{shown}"
    );
}
