//! `eindecomp.toml`: what a crate's blocks are planned for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use eindecomp_core::plan::{Algorithm, Objective, Residency};
use serde::Deserialize;

use super::failure::Failure;

/// Its name.
pub const FILE: &str = "eindecomp.toml";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder of plans, beside the file.
    pub folder: Option<PathBuf>,
    /// What is planned.
    #[serde(default, rename = "plan")]
    pub plans: Vec<Wanted>,
}

/// One `[[plan]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// A block's path or its end; all blocks if there is none.
    pub block: Option<String>,
    /// Values of each dim: every combination is planned.
    #[serde(default)]
    pub dims: BTreeMap<String, Values<i64>>,
    /// Clusters by name or file.
    pub cluster: Option<Values<String>>,
    /// Where weights live.
    #[serde(default)]
    pub residency: ResidencyName,
    /// What plans minimise.
    #[serde(default)]
    pub objective: ObjectiveName,
    /// How the optimum is searched.
    #[serde(default)]
    pub algorithm: AlgorithmName,
    /// Least extent of a part of an index.
    pub min_tile: Option<NonZeroU32>,
    /// Kernel calls per device.
    pub oversubscribe: Option<NonZeroU32>,
}

/// One value or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "dims are whole numbers and clusters are texts, each one of them or a list"
)]
pub enum Values<T> {
    One(T),
    List(Vec<T>),
}

impl<T> Values<T> {
    pub fn as_slice(&self) -> &[T] {
        match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::List(list) => list,
        }
    }
}

/// [`Objective`] as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum ObjectiveName {
    /// Bytes that move between devices.
    #[default]
    Placed,
    /// Elements that move when every tile is remote.
    Communication,
    /// Nanoseconds, by the rates of the cluster.
    Time,
}

impl From<ObjectiveName> for Objective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Placed => Self::Placed,
            ObjectiveName::Communication => Self::Communication,
            ObjectiveName::Time => Self::Time,
        }
    }
}

/// [`Algorithm`] as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlgorithmName {
    /// The optimum is proved.
    #[default]
    Exact,
    /// Path by path.
    Linearized,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Self {
        match name {
            AlgorithmName::Exact => Self::Exact,
            AlgorithmName::Linearized => Self::Linearized,
        }
    }
}

/// [`Residency`] as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum ResidencyName {
    /// Each device keeps what it reads.
    #[default]
    AsNeeded,
    /// One copy over all devices.
    Sharded,
    /// The planner chooses under the capacity.
    Auto,
}

impl From<ResidencyName> for Residency {
    fn from(name: ResidencyName) -> Self {
        match name {
            ResidencyName::AsNeeded => Self::AsNeeded,
            ResidencyName::Sharded => Self::Sharded,
            ResidencyName::Auto => Self::Auto,
        }
    }
}

impl Wanted {
    /// Files of clusters are beside the file that names them.
    fn settle(&mut self, root: &Path) {
        let place = |name: &mut String| {
            if name.ends_with(".json") {
                *name = root.join(&*name).display().to_string();
            }
        };
        match &mut self.cluster {
            Some(Values::One(name)) => place(name),
            Some(Values::List(names)) => names.iter_mut().for_each(place),
            None => {}
        }
    }
}

impl Config {
    /// Of the crate around this folder: of the nearest folder with a manifest, or of this one.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn here() -> Result<(PathBuf, Config), Failure> {
        let here = std::env::current_dir().map_err(|e| e.to_string())?;
        let crates = here.ancestors().find(|f| f.join("Cargo.toml").is_file());
        let root = match crates {
            Some(root) if root != here => root.to_path_buf(),
            _ => PathBuf::new(),
        };
        let config = Config::read(&root)?;
        Ok((root, config))
    }

    /// Of the crate in `root`; that of no file is empty.
    ///
    /// # Errors
    /// A file that cannot be read or is no configuration.
    pub fn read(root: &Path) -> Result<Config, Failure> {
        let path = root.join(FILE);
        let wrong = |e: String| Failure::Usage(format!("{}: {e}", path.display()));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Config::default()),
            Err(e) if e.kind() == ErrorKind::InvalidData => return Err(wrong(e.to_string())),
            Err(e) => return Err(format!("{}: {e}", path.display()).into()),
        };
        let mut config = Config::of(&text).map_err(wrong)?;
        for plan in &mut config.plans {
            plan.settle(root);
        }
        Ok(config)
    }

    /// Of a text.
    fn of(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| {
            let brackets = text.lines().any(|line| line.trim() == "[plan]");
            let hint = if brackets {
                "write [[plan]], with two brackets\n"
            } else {
                ""
            };
            format!("{e}{hint}")
        })?;
        if config
            .folder
            .as_ref()
            .is_some_and(|f| f.as_os_str().is_empty())
        {
            return Err("folder is empty".into());
        }
        for plan in &config.plans {
            let dims = plan
                .dims
                .iter()
                .filter(|(_, values)| values.as_slice().is_empty());
            let dims = dims.map(|(dim, _)| format!("dim {dim}"));
            let clusters = plan.cluster.iter().filter(|c| c.as_slice().is_empty());
            if let Some(none) = dims.chain(clusters.map(|_| "cluster".into())).next() {
                return Err(format!("{none} of a [[plan]] has no value"));
            }
        }
        Ok(config)
    }

    /// The folder of plans of the crate in `root`, unless another one is `given`.
    pub fn folder(&self, root: &Path, given: Option<&Path>) -> PathBuf {
        let own = || root.join(self.folder.as_deref().unwrap_or(Path::new("plans")));
        given.map_or_else(own, Path::to_path_buf)
    }
}

/// `B=1,S=512`.
///
/// # Errors
/// What is not of that form.
pub fn dims(text: &str) -> Result<BTreeMap<String, i64>, Failure> {
    let mut dims = BTreeMap::new();
    for pair in text.split(',') {
        let parts = pair
            .split_once('=')
            .map(|(n, v)| (n.trim(), v.trim().parse()));
        let Some((name, Ok(value))) = parts.filter(|(name, _)| !name.is_empty()) else {
            return Err(Failure::Usage(format!(
                "`{pair}` is no dim: write `--dims B=1,S=512`"
            )));
        };
        if dims.insert(name.to_string(), value).is_some() {
            return Err(Failure::Usage(format!(
                "`{name}` is given twice in `--dims {text}`"
            )));
        }
    }
    Ok(dims)
}

/// `what`, and which name is near the one that is not there, or which there are.
pub fn unknown_dim(what: &str, name: &str, known: &BTreeSet<Arc<str>>) -> Failure {
    let known: Vec<&str> = known.iter().map(|s| &**s).collect();
    Failure::Usage(match crate::nearest(name, known.iter().copied()) {
        Some(near) => format!("{what} `{name}`; did you mean `{near}`?"),
        None if known.is_empty() => format!("{what} `{name}`; there are none"),
        None => format!("{what} `{name}`; there are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_slips_are_told() {
        let text = r#"
            folder = "kept"
            [[plan]]
            block = "step"
            dims = { B = [1, 8], S = 512 }
            cluster = "cpus:4"
        "#;
        let config: Config = toml::from_str(text).unwrap();
        let root = Path::new("crate");
        assert_eq!(config.folder(root, None), root.join("kept"));
        assert_eq!(
            config.folder(root, Some(Path::new("given"))),
            Path::new("given")
        );
        assert_eq!(Config::default().folder(root, None), root.join("plans"));
        assert_eq!(config.plans[0].dims["B"].as_slice(), [1, 8]);
        assert_eq!(config.plans[0].dims["S"].as_slice(), [512]);
        for (text, told) in [
            ("[[plan]]\nblok = 'x'", "expected one of `block`"),
            ("[plan]\nblock = 'x'", "write [[plan]], with two brackets"),
            ("[[plan]]\ndims = { B = 2.5 }", "dims are whole numbers"),
            ("[[plan]]\ndims = { B = '2' }", "dims are whole numbers"),
            ("[[plan]]\ncluster = 4", "clusters are texts"),
            (
                "[[plan]]\ndims = { B = 1, S = [] }",
                "dim S of a [[plan]] has no value",
            ),
            (
                "[[plan]]\ncluster = []",
                "cluster of a [[plan]] has no value",
            ),
            ("folder = ''", "folder is empty"),
        ] {
            let slip = Config::of(text).unwrap_err();
            assert!(slip.contains(told), "{slip}");
        }
        let mut plan = Config::of("[[plan]]\ncluster = ['cpus:2', 'c 4.json']")
            .unwrap()
            .plans
            .remove(0);
        plan.settle(root);
        let file = root.join("c 4.json").display().to_string();
        assert_eq!(
            plan.cluster.unwrap().as_slice(),
            ["cpus:2".to_string(), file]
        );
    }

    #[test]
    fn dims_of_the_command_line() {
        assert_eq!(dims("B=1, S=512").unwrap()["S"], 512);
        for slip in ["", "B", "B=x", "=1", "B=1,B=2"] {
            assert!(dims(slip).is_err(), "{slip}");
        }
    }
}
