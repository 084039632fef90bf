//! `eindecomp.toml`: what a crate's blocks are planned for.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use eindecomp_core::plan::{Objective, Residency};
use serde::Deserialize;

use super::failure::Failure;

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
    /// Least extent of a part of an index.
    pub min_tile: Option<NonZeroU32>,
    /// Kernel calls per device.
    pub oversubscribe: Option<NonZeroU32>,
}

/// One value or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
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

impl Config {
    /// Of the crate in `root`; that of no file is empty.
    ///
    /// # Errors
    /// A file that cannot be read or is no configuration.
    pub fn read(root: &Path) -> Result<Config, Failure> {
        let path = root.join("eindecomp.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|e| Failure::Usage(format!("{}: {e}", path.display()))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
            Err(e) => Err(format!("{}: {e}", path.display()).into()),
        }
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
        let slip = toml::from_str::<Config>("[[plan]]\nblok = 'x'")
            .unwrap_err()
            .to_string();
        assert!(slip.contains("blok") && slip.contains("block"), "{slip}");
    }

    #[test]
    fn dims_of_the_command_line() {
        assert_eq!(dims("B=1, S=512").unwrap()["S"], 512);
        for slip in ["", "B", "B=x", "=1", "B=1,B=2"] {
            assert!(dims(slip).is_err(), "{slip}");
        }
    }
}
