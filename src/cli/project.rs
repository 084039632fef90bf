//! The crate and its blocks: `cargo` runs the test that [`blocks!`](crate::blocks) made.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use eindecomp_core::plan::cache::PLANNER;
use serde_json::Value;

use super::Failure;
use super::args::Project;
use crate::blocks::FILE;
use crate::blocks::told::{self, Block};

/// A crate.
pub struct Package {
    /// The folder of its manifest.
    pub root: PathBuf,
    name: String,
    /// `--lib`, `--bins`: where its blocks can be.
    targets: Vec<&'static str>,
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
            return Err(format!(
                "choose one of the packages by --package: {}",
                names.join(", ")
            ));
        };
        let kinds = package["targets"].as_array().into_iter().flatten();
        let kinds: Vec<&str> = kinds
            .flat_map(|t| t["kind"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        let mut targets = Vec::new();
        if kinds
            .iter()
            .any(|k| k.ends_with("lib") || *k == "proc-macro")
        {
            targets.push("--lib");
        }
        if kinds.contains(&"bin") {
            targets.push("--bins");
        }
        let manifest = PathBuf::from(text(package, "manifest_path"));
        Ok(Package {
            root: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
            name: text(package, "name"),
            targets,
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
        command
            .args(["--quiet", "--package", &self.name])
            .args(&self.targets);
        if let Some(features) = &args.features {
            command.args(["--features", features]);
        }
        command.args(["--", "eindecomp_blocks"]).env(FILE, &file);
        let told = output(&mut command).and_then(|_| match std::fs::read_to_string(&file) {
            Ok(text) => told::read(&text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(format!(
                "`{}` names no blocks: add a line `eindecomp::blocks! {{ … }}` to it",
                self.name
            )),
            Err(e) => Err(format!("{}: {e}", file.display())),
        });
        let _ = std::fs::remove_file(&file);
        let blocks = told?;
        match blocks.iter().find(|b| b.planner != PLANNER) {
            Some(other) => Err(format!(
                "the eindecomp that `{}` uses has {}, this command {PLANNER}: use one version of both",
                self.name, other.planner
            )),
            None => Ok(blocks),
        }
    }
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
        false => Err(format!("cargo failed ({})\n{text}", output.status)),
    }
}
