//! Wrong programs: each error on its tokens, in its words, with nothing behind it; each change
//! that a help proposes, made.

use std::collections::BTreeMap;

use eindecomp_core::syntax::{Code, Diag};

use crate::case::{
    Case, errors, files, marks, places, read, stem, underlined, without_marks, write,
};

/// Codes that no program text reaches: what they report is found when a program is run.
const UNREACHED: [Code; 1] = [Code::Bind];

fn rendered(source: &str, errors: &[Diag]) -> String {
    // Programs end before what is said of them, so the lines are those of the file's case.
    errors
        .iter()
        .map(|e| e.render(source).to_string())
        .collect()
}

/// What applying each help of a program's errors leaves of them.
fn applied(case: &Case, errors_before: &[Diag], faults: &mut Vec<String>) -> usize {
    let mut count = 0;
    for error in errors_before {
        for fix in &error.fixes {
            count += 1;
            let mended = fix.apply(&case.source);
            let left = errors(&mended);
            let mut others: Vec<&str> = errors_before
                .iter()
                .filter(|other| !std::ptr::eq(*other, error))
                .map(|other| &*other.message)
                .collect();
            let known = left.iter().all(|e| {
                let at = others.iter().position(|other| *other == e.message);
                at.map(|at| others.remove(at)).is_some()
            });
            if !known || left.len() >= errors_before.len() {
                let left = rendered(&mended, &left);
                faults.push(format!(
                    "{}: after `{}`:\n{mended}\nis said\n{left}",
                    case.name, fix.help
                ));
            }
        }
    }
    count
}

#[test]
fn each_is_caught_on_its_tokens_and_its_helps_mend_it() {
    let blessing = std::env::var("EINDECOMP_BLESS").ok();
    let bless = blessing.is_some();
    let (mut faults, mut programs, mut helps) = (Vec::new(), 0, 0);
    let mut reached: BTreeMap<Code, usize> = BTreeMap::new();
    for file in files("wrong") {
        let mut cases = read(&file);
        for case in &mut cases {
            if blessing.as_deref() == Some("marks") {
                case.source = without_marks(&case.source);
            }
            if bless && marks(case).is_empty() {
                case.source =
                    underlined(&case.source, &places(&case.source, &errors(&case.source)));
            }
            let said = errors(&case.source);
            let at = format!("{}: {}", stem(&file), case.name);
            let (wanted, found) = (marks(case), places(&case.source, &said));
            if wanted != found {
                faults.push(format!("{at}: underlined {wanted:?}, found {found:?}"));
            }
            let code = stem(&file).to_uppercase();
            if !said.iter().any(|e| code.starts_with(&e.code.to_string())) {
                faults.push(format!("{at}: none of its errors is {code}"));
            }
            let text = rendered(&case.source, &said);
            if bless {
                case.expected = text;
            } else if case.expected != text {
                faults.push(format!(
                    "{at}: is said\n{text}instead of\n{}",
                    case.expected
                ));
            }
            programs += 1;
            let codes: std::collections::BTreeSet<Code> = said.iter().map(|e| e.code).collect();
            codes
                .iter()
                .for_each(|code| *reached.entry(*code).or_default() += 1);
            helps += applied(case, &said, &mut faults);
        }
        if bless {
            write(&file, &cases);
        }
    }
    println!("{programs} wrong programs, {helps} helps applied");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    for code in Code::ALL.iter().filter(|code| !UNREACHED.contains(code)) {
        let count = reached.get(code).copied().unwrap_or(0);
        assert!(count >= 2, "{code} is reached by {count} programs");
    }
    assert!(programs >= 120, "{programs} programs");
}
