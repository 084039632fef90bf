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

/// What `fn main() -> Result<(), Error>` prints is what the error says.
#[test]
fn debug_is_the_text() {
    use eindecomp::{CacheMode, Cluster, Error, Session, TextError, UnknownMode, machine};
    fn same<E: std::error::Error>(error: E, says: &str) {
        let text = error.to_string();
        assert!(text.contains(says), "{text}");
        assert_eq!(format!("{error:?}"), text);
        assert_eq!(format!("{:?}", Box::new(error)), text);
    }
    let none = tempfile::tempdir().unwrap();
    let session = || Session::builder().cache_dir(none.path());
    let graph = || {
        let text = "fn f<dim N>(x: f32[N]) -> f32 { let y[] = sum[n] x[n]; y }";
        eindecomp::EinGraph::from_text(text, "f", &Default::default()).unwrap()
    };
    let frozen = session().cache_mode(CacheMode::Frozen).build().unwrap();
    let dims = [("N".into(), 4)].into();
    let miss: Error = frozen.compile_graph(graph(), dims).err().unwrap();
    same(miss, "there is no plan");
    let unbound = frozen.compile_graph(graph(), Default::default());
    same(unbound.err().unwrap(), "EIN0012");
    let none_at_all = session()
        .cluster(Cluster::dgx_a100().with_servers(0))
        .build();
    same(none_at_all.err().unwrap(), "0 servers of 8 devices");
    same(
        "Frozen".parse::<CacheMode>().unwrap_err() as UnknownMode,
        "no cache mode",
    );
    let text = eindecomp::EinGraph::from_text("fn f(", "f", &Default::default());
    same(text.unwrap_err() as TextError, "EIN0013");
    let file = none.path().join("machine.json");
    std::fs::write(&file, "{}").unwrap();
    let figures = session().this_machine(1).build();
    same(figures.err().unwrap(), "has no figures of a machine");
    same(
        machine::cluster(Some(none.path()), 1).unwrap_err(),
        "machine.json",
    );
    let parsed = eindecomp::EinGraph::parse("eingraph {").unwrap_err();
    same(parsed, "line ");
    let mut composed = eindecomp::Graph::new();
    composed.input::<f32, 1>("x", [4.into()]);
    composed.input::<f32, 1>("x", [4.into()]);
    same(std::mem::take(&mut composed).finish().unwrap_err(), "`x`");
}
