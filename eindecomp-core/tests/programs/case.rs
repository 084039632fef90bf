//! Reading and writing files of cases.

use std::fs;
use std::path::{Path, PathBuf};

use eindecomp_core::syntax::ast::{Item, Path as RustPath};
use eindecomp_core::syntax::check::{Others, Signature};
use eindecomp_core::syntax::parse::parse_text_at;
use eindecomp_core::syntax::{Code, Diag, Span, check, parse_text};

/// One program of a file.
pub struct Case {
    /// Its name, unique in the file.
    pub name: String,
    /// The program, with the comments that underline what is wrong.
    pub source: String,
    /// The rendered errors.
    pub expected: String,
}

/// A place underlined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// From 1.
    pub line: usize,
    /// From 0, in characters.
    pub columns: (usize, usize),
    /// The code, for a primary place.
    pub code: Option<String>,
}

/// The files of a folder of cases, in order.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The name of a file without its ending.
pub fn stem(file: &Path) -> &str {
    file.file_stem().unwrap().to_str().unwrap()
}

/// The cases of a file.
pub fn read(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("//# ") {
            cases.push(Case {
                name: name.to_owned(),
                source: String::new(),
                expected: String::new(),
            });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| {
            panic!("{}: a file starts with `//# a name`", file.display());
        });
        match line.strip_prefix("//|") {
            Some(said) => {
                case.expected += said.strip_prefix(' ').unwrap_or(said);
                case.expected.push('\n');
            }
            None => {
                case.source += line;
                case.source.push('\n');
            }
        }
    }
    for case in &mut cases {
        case.source.truncate(case.source.trim_end().len());
        case.source.push('\n');
    }
    cases
}

/// Writes the cases of a file.
pub fn write(file: &Path, cases: &[Case]) {
    let mut text = String::new();
    for (at, case) in cases.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        text += &format!("//# {}\n{}", case.name, case.source);
        for line in case.expected.lines() {
            text += format!("//| {line}").trim_end();
            text.push('\n');
        }
    }
    fs::write(file, text).unwrap();
}

/// Every error of a program, in order of place. What stands between `//@ ein path` and `//@ end` is
/// another program, whose items are reached by that path.
pub fn errors(source: &str) -> Vec<Diag> {
    let (others, main) = programs(source);
    let (program, mut errors) = parse_text(&main);
    if others.is_empty() {
        errors.extend(check::check_program(&program).errors);
        errors.sort_by_key(|diag| (diag.primary, diag.code));
        return errors;
    }
    let (mut known, mut places) = (Others::unseen(), Vec::new());
    for (path, text) in &others {
        let (other, more) = parse_text(text);
        let checked = check::check_with(&other, &Others::unseen());
        errors.extend(more.into_iter().chain(checked.errors.clone()));
        for item in &other.items {
            let signature = match item {
                Item::Block(block) => {
                    Signature::block(block, checked.block(block.head.name.as_str()))
                }
                Item::Struct(structure) => Signature::structure(structure, &other),
                _ => continue,
            };
            let base = (places.len() as u32 + 1) * (1 << 20);
            let path = RustPath::from_text(&format!("{path}::{}", item.head().name));
            known.add(&path, &signature, base);
            let again = parse_text_at(&signature.text, base).0;
            let again = again
                .items
                .first()
                .map(Signature::places)
                .unwrap_or_default();
            let there = Signature::places(item);
            places.extend(again.into_iter().zip(there));
        }
    }
    let before = check::check_with(&program, &Others::unseen()).errors;
    let after = check::check_with(&program, &known).errors;
    let told = |diag: &Diag| {
        before
            .iter()
            .any(|b| (b.code, b.primary) == (diag.code, diag.primary))
    };
    let new = after.into_iter().filter(|diag| !told(diag));
    errors.extend(new.collect::<Vec<_>>().into_iter().chain(before));
    for (span, _) in errors.iter_mut().flat_map(|diag| &mut diag.secondary) {
        let around = places
            .iter()
            .filter(|(p, _)| p.start <= span.start && span.end <= p.end);
        if let Some((_, there)) = around.min_by_key(|(p, _)| p.end - p.start) {
            *span = *there;
        }
    }
    errors.sort_by_key(|diag| (diag.primary, diag.code));
    errors
}

/// The other programs of a source by their paths, and its own: the same text, with everything else
/// blank.
fn programs(source: &str) -> (Vec<(String, String)>, String) {
    let (mut others, mut main) = (Vec::<(String, String)>::new(), String::new());
    let mut inside = false;
    for line in source.split_inclusive('\n') {
        if let Some(path) = line.strip_prefix("//@ ein ") {
            others.push((path.trim().into(), blank(&main)));
            inside = true;
        }
        match inside {
            true => main += &blank(line),
            false => main += line,
        }
        if let (true, Some((_, text))) = (inside, others.last_mut()) {
            *text += line;
        }
        inside &= line.trim_end() != "//@ end";
    }
    (others, main)
}

/// As many bytes in as many lines.
fn blank(text: &str) -> String {
    let bytes = text.bytes();
    bytes.map(|b| if b == b'\n' { '\n' } else { ' ' }).collect()
}

/// The places underlined in a case, in order.
pub fn marks(case: &Case) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut line = 0;
    for (at, text) in case.source.lines().enumerate() {
        let Some(below) = text.strip_prefix("//~") else {
            line = at + 1;
            continue;
        };
        if let Some((width, code)) = below.split_once("< ") {
            let (columns, code) = ((0, width.len() + 1), Some(code.to_owned()));
            marks.push(Mark {
                line,
                columns,
                code,
            });
            continue;
        }
        let chars: Vec<char> = below.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let start = at;
            match chars[at] {
                ' ' => at += 1,
                mark @ ('^' | '-') => {
                    while chars.get(at) == Some(&mark) {
                        at += 1;
                    }
                    let code: String = match mark {
                        '^' => chars[at..].iter().skip(1).take(7).collect(),
                        _ => String::new(),
                    };
                    let columns = (start + 3, at + 3);
                    at += if mark == '^' {
                        1 + code.chars().count()
                    } else {
                        0
                    };
                    let code = (mark == '^').then_some(code);
                    marks.push(Mark {
                        line,
                        columns,
                        code,
                    });
                }
                other => panic!("{}: `{other}` in `{text}`", case.name),
            }
        }
    }
    marks.sort();
    marks
}

/// Where errors are, as a case would underline them.
pub fn places(source: &str, errors: &[Diag]) -> Vec<Mark> {
    let mark = |span: Span, code: Option<Code>| {
        let start = (span.start as usize).min(source.len());
        let end = (span.end as usize).min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..]
            .find('\n')
            .map_or(source.len(), |at| start + at);
        let column = source[line_start..start].chars().count();
        let width = source[start..end.clamp(start, line_end)].chars().count();
        Mark {
            line: source[..start].matches('\n').count() + 1,
            columns: (column, column + width.max(1)),
            code: code.map(|code| code.to_string()),
        }
    };
    let mut marks: Vec<Mark> = Vec::new();
    for error in errors {
        marks.push(mark(error.primary, Some(error.code)));
        marks.extend(error.secondary.iter().map(|(span, _)| mark(*span, None)));
    }
    marks.sort();
    marks.dedup();
    marks
}

/// A program without what underlines its places.
pub fn without_marks(source: &str) -> String {
    let lines = source.lines().filter(|line| !line.starts_with("//~"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A program with its places underlined.
pub fn underlined(source: &str, marks: &[Mark]) -> String {
    let mut out = String::new();
    for (at, line) in source.lines().enumerate() {
        out += line;
        out.push('\n');
        // One line per mark that would run into the one before.
        let mut below = String::new();
        for mark in marks.iter().filter(|mark| mark.line == at + 1) {
            let (start, end) = mark.columns;
            if let (0, Some(code)) = (start, &mark.code) {
                out += &format!("//~{} {code}\n", "<".repeat(end));
                continue;
            }
            assert!(start >= 3, "`{line}` cannot be underlined at {start}");
            if !below.is_empty() && below.chars().count() + 1 > start {
                out += &below;
                out.push('\n');
                below.clear();
            }
            if below.is_empty() {
                below += "//~";
            }
            below += &" ".repeat(start - below.chars().count());
            let ch = if mark.code.is_some() { "^" } else { "-" };
            below += &ch.repeat(end - start);
            if let Some(code) = &mark.code {
                below += &format!(" {code}");
            }
        }
        if !below.is_empty() {
            out += &below;
            out.push('\n');
        }
    }
    out
}
