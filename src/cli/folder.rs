//! The entries of a folder, good or not.

use std::path::{Path, PathBuf};

use eindecomp_core::plan::Plan;
use eindecomp_core::plan::cache::{WrittenKey, decode, read};

use super::Failure;
use super::targets::Target;
use crate::cache::{Lowered, folder};

/// A file that is named like an entry.
pub struct Entry {
    pub hash: String,
    pub path: PathBuf,
    /// What it holds, or why it is no entry of this version.
    pub content: Result<(WrittenKey, Plan), String>,
}

/// Every entry of a folder, by name; none if there is no such folder.
///
/// # Errors
/// The folder cannot be listed.
pub fn entries(folder: &Path) -> Result<Vec<Entry>, Failure> {
    let files = match folder::entries(folder) {
        Ok(files) => files,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(format!("{}: {e}", folder.display())),
    };
    Ok(files.into_iter().map(entry).collect())
}

/// What a file holds.
pub fn entry(path: PathBuf) -> Entry {
    let content = folder::bytes(&path)
        .map_err(|e| e.to_string())
        .and_then(|text| text.ok_or_else(|| "there is no such file".into()))
        .and_then(|text| read(&text).map_err(|e| e.to_string()));
    let hash = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    Entry {
        hash: hash.unwrap_or_default(),
        path,
        content,
    }
}

/// The plan of a target: `None` if there is no entry, else the plan or why it is none.
pub fn plan(folder: &Path, target: &Target) -> Option<Result<Lowered, String>> {
    let text = match folder::bytes(&folder::entry(folder, target.hash())) {
        Ok(text) => text?,
        Err(error) => return Some(Err(error.to_string())),
    };
    let plan = decode(&text, &target.key, &target.graph, &target.cluster);
    Some(plan.map_err(|e| e.to_string()))
}
