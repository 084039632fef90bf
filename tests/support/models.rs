//! What the example models are expected to give: files of `tests/data`, and of the folder that
//! the environment variable EINDECOMP_MODELS names.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Every file whose name ends with `ending`, with its path.
pub fn expected<T: DeserializeOwned>(ending: &str) -> Vec<(PathBuf, T)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let more = std::env::var_os("EINDECOMP_MODELS").map(PathBuf::from);
    let mut files = Vec::new();
    for folder in [own].into_iter().chain(more) {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = paths
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            let content = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            files.push((path, content));
        }
    }
    files
}
