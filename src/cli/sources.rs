//! Which targets of a crate can name blocks: those in whose sources `blocks` is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Can the crate whose root file this is name blocks? Its modules are followed as far as they are found; where one is
/// not, the answer is yes.
pub fn may_name_blocks(root: &Path) -> bool {
    let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut seen = BTreeSet::new();
    // a file, and the folder of the modules that it declares
    let mut open: Vec<(PathBuf, PathBuf)> = vec![(root.into(), folder)];
    while let Some((file, folder)) = open.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else {
            return true;
        };
        let words: Vec<&str> = words(&text).collect();
        if words.contains(&"blocks") || words.windows(3).any(leads_elsewhere) {
            return true;
        }
        for (inside, name) in declared(&words) {
            let folder = inside
                .iter()
                .fold(folder.clone(), |folder, module| folder.join(module));
            let below = folder.join(name);
            let files = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
            match files.into_iter().find(|f| f.is_file()) {
                Some(file) => open.push((file, below)),
                None => return true,
            }
        }
    }
    false
}

/// `include!(`, `[path =` and, in a `cfg_attr`, `, path =`.
fn leads_elsewhere(words: &[&str]) -> bool {
    matches!(words, ["include", "!", _] | ["[" | ",", "path", "="])
}

/// Modules that have files of their own, and the modules of this file that each is declared in.
fn declared<'a>(words: &[&'a str]) -> Vec<(Vec<&'a str>, &'a str)> {
    let mut found = Vec::new();
    // the modules around, and how deep in braces each is
    let (mut around, mut depth): (Vec<(&str, usize)>, usize) = (Vec::new(), 0);
    for (at, word) in words.iter().enumerate() {
        match (*word, words[at + 1..].first(), words[at + 1..].get(1)) {
            ("mod", Some(name), Some(&";")) => {
                let inside = around.iter().map(|(name, _)| *name).collect();
                found.push((inside, name.trim_start_matches("r#")));
            }
            ("mod", Some(name), Some(&"{")) => around.push((name.trim_start_matches("r#"), depth)),
            ("{", ..) => depth += 1,
            ("}", ..) => {
                depth = depth.saturating_sub(1);
                around.retain(|(_, outside)| *outside < depth);
            }
            _ => {}
        }
    }
    found
}

/// Words, and every other character by itself, without comments up to the ends of their lines.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    lines.flat_map(|line| {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '#';
        let mut rest = line.trim_start();
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let end = match word(first) {
                true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            let (one, after) = rest.split_at(end);
            rest = after.trim_start();
            Some(one)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(files: &[(&str, &str)]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        may_name_blocks(&folder.path().join("main.rs"))
    }

    #[test]
    fn modules_are_followed() {
        assert!(!answer(&[("main.rs", "fn main() {} // blocks!")]));
        assert!(answer(&[("main.rs", "ed::blocks! { f }")]));
        assert!(answer(&[("main.rs", "use ed::blocks as b; b! { f }")]));
        let below = "pub mod deep ;";
        let quiet = "mod main_too { fn f() {} }";
        let deep = |text| {
            [
                ("main.rs", "mod a;"),
                ("a/mod.rs", below),
                ("a/deep.rs", text),
            ]
        };
        assert!(answer(&deep("blocks!{f}")));
        assert!(!answer(&deep(quiet)));
        let beside = [
            ("main.rs", "mod r#a;"),
            ("a.rs", below),
            ("a/deep/mod.rs", "blocks!{f}"),
        ];
        assert!(answer(&beside));
        let inside = |text| {
            [
                (
                    "main.rs",
                    "mod a { fn f() { if true {} } mod b; } mod b; mod tests {}",
                ),
                ("a/b.rs", text),
                ("b.rs", quiet),
            ]
        };
        assert!(answer(&inside("blocks!{f}")));
        assert!(!answer(&inside(quiet)));
        assert!(!answer(&[(
            "main.rs",
            "use std::path::Path; fn main() { let path = 1; }"
        )]));
        // what cannot be followed may be anything
        for text in [
            "mod a;",
            "#[path = \"x.rs\"] mod a;",
            "#[cfg_attr(x, path = \"x.rs\")] mod a;",
            "include!(\"x.rs\");",
        ] {
            assert!(answer(&[("main.rs", text)]), "{text}");
        }
        assert!(answer(&[]));
        assert!(!answer(&[
            ("main.rs", "mod a;"),
            ("a.rs", "mod a;"),
            ("a/a.rs", "")
        ]));
    }
}
