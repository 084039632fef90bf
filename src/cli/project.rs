//! The crate and its blocks: `cargo` runs the test that [`blocks!`](crate::blocks) made.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::args::Project;
use super::failure::Failure;
use super::note;
use super::sources::may_name_blocks;
use crate::blocks::FILE;
use crate::blocks::told::{self, Block};

/// A crate.
pub struct Package {
    /// The folder of its manifest.
    pub root: PathBuf,
    pub name: String,
    /// `--lib`, `--bin NAME`: where its blocks can be.
    targets: Vec<String>,
    /// What the crate calls `eindecomp`.
    eindecomp: String,
    /// Where builds go.
    target_folder: PathBuf,
}

impl Package {
    /// The crate that the command line means.
    ///
    /// # Errors
    /// No manifest, or a workspace of several crates of which none is chosen.
    pub fn find(args: &Project) -> Result<Package, Failure> {
        let mut command = cargo("metadata", args);
        let text = output(command.args(["--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_string();
        let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
        let here = output(cargo("locate-project", args).args(["--message-format", "plain"]))?;
        let chosen = packages.iter().find(|p| match &args.package {
            Some(name) => text(p, "name") == *name,
            None => text(p, "manifest_path") == here.trim() || packages.len() == 1,
        });
        let Some(package) = chosen else {
            let names: Vec<String> = packages.iter().map(|p| text(p, "name")).collect();
            let unknown = args.package.as_ref();
            let unknown = unknown.map_or(String::new(), |p| format!("there is no package `{p}`: "));
            return Err(Failure::Usage(format!(
                "{unknown}choose one of the packages by --package: {}",
                names.join(", ")
            )));
        };
        let dependencies = package["dependencies"].as_array();
        let uses = dependencies
            .into_iter()
            .flatten()
            .find(|d| d["name"] == "eindecomp");
        let eindecomp = uses
            .and_then(|d| d["rename"].as_str())
            .unwrap_or("eindecomp");
        let manifest = PathBuf::from(text(package, "manifest_path"));
        Ok(Package {
            targets: targets(package, args),
            eindecomp: eindecomp.replace('-', "_"),
            root: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
            name: text(package, "name"),
            target_folder: text(&metadata, "target_directory").into(),
        })
    }

    /// Every block that the crate names.
    ///
    /// # Errors
    /// A crate that does not compile, or names none; an `eindecomp` that plans otherwise than this one.
    pub fn blocks(&self, args: &Project) -> Result<Vec<Block>, Failure> {
        let file = format!("eindecomp-blocks-{}.txt", std::process::id());
        let file = self.target_folder.join(file);
        std::fs::create_dir_all(&self.target_folder).map_err(|e| e.to_string())?;
        let mut command = cargo("test", args);
        command.args(["--package", &self.name]).args(&self.targets);
        if !args.features.is_empty() {
            command.args(["--features", &args.features.join(",")]);
        }
        if args.no_default_features {
            command.arg("--no-default-features");
        }
        if !std::io::stderr().is_terminal() {
            command.arg("--quiet");
        }
        command.args(["--", "eindecomp_blocks"]).env(FILE, &file);
        let targets = self.targets.join(" ");
        note(format_args!(
            "building `{}` ({targets}) to ask it for its blocks",
            self.name
        ));
        let asked = output(&mut command);
        let text = std::fs::read_to_string(&file);
        let _ = std::fs::remove_file(&file);
        asked?;
        match text {
            Ok(text) => told::read(&text).map_err(|e| format!("`{}`: {e}", self.name).into()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(format!(
                "`{}` names no blocks ({targets}; tests and examples are not asked, and what is behind a feature needs \
                 --features): add a line `{}::blocks! {{ … }}` to it",
                self.name, self.eindecomp
            )
            .into()),
            Err(e) => Err(format!("{}: {e}", file.display()).into()),
        }
    }
}

/// Where a package's blocks can be, for `cargo test`: targets that name some, or else all; but those whose features are
/// off.
fn targets(package: &Value, args: &Project) -> Vec<String> {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts
            .filter_map(|v| Some(v.as_str()?.to_string()))
            .collect()
    };
    let mut on: BTreeSet<String> = args.features.iter().cloned().collect();
    if !args.no_default_features {
        on.insert("default".into());
    }
    let mut open: Vec<String> = on.iter().cloned().collect();
    while let Some(feature) = open.pop() {
        let more = texts(&package["features"][&feature]);
        open.extend(
            more.into_iter()
                .filter(|feature| on.insert(feature.clone())),
        );
    }
    let target = |target: &Value| {
        if !texts(&target["required-features"])
            .iter()
            .all(|f| on.contains(f))
        {
            return None;
        }
        let kinds = target["kind"].as_array().into_iter().flatten();
        let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
        let args = match kinds[..] {
            ["bin"] => vec!["--bin".into(), target["name"].as_str()?.to_string()],
            _ if kinds
                .iter()
                .any(|k| k.ends_with("lib") || *k == "proc-macro") =>
            {
                vec!["--lib".into()]
            }
            _ => return None,
        };
        Some((
            args,
            may_name_blocks(Path::new(target["src_path"].as_str()?)),
        ))
    };
    let all = package["targets"].as_array().into_iter().flatten();
    let all: Vec<(Vec<String>, bool)> = all.filter_map(target).collect();
    let some = all.iter().any(|(_, names)| *names);
    let chosen = all.into_iter().filter(|(_, names)| *names || !some);
    chosen.flat_map(|(args, _)| args).collect()
}

fn cargo(what: &str, args: &Project) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg(what).stdin(Stdio::null());
    if let Some(path) = &args.manifest_path {
        command.arg("--manifest-path").arg(path);
    }
    command
}

/// What a command prints. Its messages go where ours do.
fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cargo cannot be run: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let text = format!("cargo failed ({})\n{text}", output.status);
            Err(text.trim_end().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::cli::args::{Cli, Command};

    #[test]
    fn targets_whose_features_are_off_are_not_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "blocks!{f}").unwrap();
            path.to_str().unwrap().to_string()
        };
        let package = json!({
            "features": { "default": ["usual"], "usual": [], "more": ["tool"], "tool": [] },
            "targets": [
                { "kind": ["lib"], "name": "l", "src_path": file("lib.rs") },
                { "kind": ["bin"], "name": "a", "src_path": file("a.rs"), "required-features": ["usual"] },
                { "kind": ["bin"], "name": "b", "src_path": file("b.rs"), "required-features": ["tool"] },
                { "kind": ["test"], "name": "t", "src_path": file("t.rs") },
            ]
        });
        let of = |args: &[&str]| {
            let args = ["cargo eindecomp", "check"].iter().chain(args);
            let Command::Check(project) = Cli::parse_from(args).command else {
                panic!("no check");
            };
            targets(&package, &project).join(" ")
        };
        assert_eq!(of(&[]), "--lib --bin a");
        assert_eq!(of(&["--features", "more"]), "--lib --bin a --bin b");
        assert_eq!(
            of(&["--no-default-features", "--features", "x,tool"]),
            "--lib --bin b"
        );
        assert_eq!(of(&["--no-default-features"]), "--lib");
    }
}
