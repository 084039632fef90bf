//! Right programs: accepted, and each block is a graph that verifies.
//!
//! `//@ NAME = 8` lines give the Rust consts of a case their values; `//@ warns: …` lines are the
//! warnings that are wanted, in order.

use eindecomp_core::syntax::{check, parse_text};

use crate::case::{Case, files, read, stem};

/// The values of the `//@` lines that start with `key`.
fn said<'a>(case: &'a Case, accept: impl Fn(&'a str) -> Option<String>) -> Vec<String> {
    let lines = case
        .source
        .lines()
        .filter_map(|line| line.strip_prefix("//@ "));
    lines.filter_map(accept).collect()
}

#[test]
fn each_is_accepted() {
    let (mut faults, mut programs) = (Vec::new(), 0);
    for file in files("right") {
        for case in read(&file) {
            let at = format!("{}: {}", stem(&file), case.name);
            let (program, mut errors) = parse_text(&case.source);
            let checked = check::check_program(&program);
            errors.extend(checked.errors.iter().cloned());
            programs += 1;
            if !errors.is_empty() {
                let errors: String = errors
                    .iter()
                    .map(|e| e.render(&case.source).to_string())
                    .collect();
                faults.push(format!("{at}:\n{errors}"));
                continue;
            }
            let wanted = said(&case, |line| {
                line.strip_prefix("warns: ").map(str::to_owned)
            });
            let found: Vec<&str> = checked.warnings.iter().map(|w| &*w.message).collect();
            if wanted != found {
                faults.push(format!("{at}: warns {found:?}, not {wanted:?}"));
            }
            graphs(&case, &checked, &at, &mut faults);
        }
    }
    println!("{programs} right programs");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(programs >= 60, "{programs} programs");
}

#[cfg(not(feature = "plan"))]
fn graphs(_: &Case, _: &check::Checked, _: &str, _: &mut Vec<String>) {}

/// Lowers every block; building a graph verifies it.
#[cfg(feature = "plan")]
fn graphs(case: &Case, checked: &check::Checked, at: &str, faults: &mut Vec<String>) {
    use eindecomp_core::ein::Value;
    use eindecomp_core::graph::from_syntax::{Consts, Context, Hosts, NoForeign, block_graph_with};
    use eindecomp_core::syntax::check::ParamRole;

    let consts: Consts = case
        .source
        .lines()
        .filter_map(|line| line.strip_prefix("//@ ")?.split_once(" = "))
        .map(|(name, value)| (name.into(), value.parse().expect("a const is a number")))
        .collect();
    for block in checked
        .blocks
        .iter()
        .filter(|block| block.foreign.is_empty())
    {
        let hosts: Hosts = block
            .params
            .iter()
            .filter(|param| param.role == ParamRole::Host)
            .map(|param| {
                let dtype = param.ty.tensor().expect("a host value is a number").dtype;
                (param.name.name.clone(), Value::Int(1).cast(dtype))
            })
            .collect();
        let mut context = Context {
            consts: &consts,
            hosts: &hosts,
            foreign: &mut NoForeign,
            prefix: "",
            lines: None,
        };
        if let Err(errors) = block_graph_with(checked, block.name.as_str(), &mut context) {
            let errors: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            faults.push(format!(
                "{at}: block `{}`: {}",
                block.name,
                errors.join("; ")
            ));
        }
    }
}
