//! Each error code has a page whose wrong example is that error, and whose right one compiles.

use eindecomp::DType;
use eindecomp::errors::{Code, PAGES};
use eindecomp_core::syntax::{Diag, check, parse_text};

/// The contents of each `ein!` in the page's code blocks that start with `fence`.
fn programs<'a>(page: &'a str, fence: &str) -> Vec<&'a str> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("\n```") {
        let block = &rest[start + 1..];
        let (head, body) = block.split_once('\n').unwrap();
        let end = body.find("\n```").unwrap() + 1;
        if head == fence {
            let start = body.find("ein! {\n").unwrap() + "ein! {\n".len();
            blocks.push(&body[start..start + body[start..end].find("\n}").unwrap() + 1]);
        }
        rest = &body[end + 3..];
    }
    blocks
}

fn errors(source: &str) -> Vec<Diag> {
    let (program, mut errors) = parse_text(source);
    errors.extend(check::check_program(&program).errors);
    errors
}

#[test]
fn each_code_has_a_page() {
    let codes: Vec<Code> = PAGES.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, Code::ALL);
    for (code, page) in PAGES {
        let title = code.title();
        let first = page.lines().next().unwrap().trim_end_matches('.');
        assert!(
            first.eq_ignore_ascii_case(title),
            "{code}: {first} is not {title}"
        );
        assert_eq!(code.page(), format!("eindecomp::errors::{code}"));
    }
}

#[test]
fn wrong_examples_are_that_error_and_right_ones_compile() {
    for (code, page) in PAGES {
        let wrong = programs(page, "```compile_fail");
        let right = programs(page, "```");
        // What is found when sizes are bound.
        let other = matches!(code, Code::Bind);
        assert_eq!(wrong.is_empty(), other, "{code}");
        for source in wrong {
            let found = errors(source);
            let all = found.iter().all(|diag| diag.code == *code);
            assert!(all && !found.is_empty(), "{code}: {found:#?}");
            assert!(found[0].to_string().ends_with(&code.page()));
        }
        for source in right {
            let found: String = errors(source)
                .iter()
                .map(|diag| diag.render(source).to_string())
                .collect();
            assert!(found.is_empty(), "{code}:\n{found}");
        }
    }
}

#[test]
fn the_language_page_has_the_widening_table() {
    let page = include_str!("../../LANGUAGE.md");
    for from in DType::ALL {
        let wider = DType::ALL
            .into_iter()
            .filter(|to| *to != from && from.widens_to(*to));
        let wider: Vec<&str> = wider.map(DType::name).collect();
        let row = format!("| `{}` | `{}` |\n", from.name(), wider.join(" "));
        assert_eq!(page.contains(&row), !wider.is_empty(), "{row}");
    }
}
