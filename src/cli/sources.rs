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
        if ["blocks", "path", "include"]
            .iter()
            .any(|w| words.contains(w))
        {
            return true;
        }
        for name in words.windows(3).filter(|w| w[0] == "mod" && w[2] == ";") {
            let name = name[1].trim_start_matches("r#");
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
        // what cannot be followed may be anything
        for text in ["mod a;", "#[path = \"x.rs\"] mod a;", "include!(\"x.rs\");"] {
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
