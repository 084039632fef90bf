//! The entries of a folder, good or not.

use std::io;
use std::path::{Path, PathBuf};

use eindecomp_core::plan::cache::{Entry, decode, read};

use super::failure::Failure;
use super::targets::Target;
use crate::cache::{Lowered, folder};

/// A file that is named like an entry.
pub struct File {
    /// What its name says that its key is.
    pub hash: String,
    pub path: PathBuf,
    /// What it holds, or why it is no entry of this version, or not the one that it is named like.
    pub content: Result<Entry, String>,
}

/// Every entry of a folder, by name.
///
/// # Errors
/// The folder is not there or cannot be listed.
pub fn entries(folder: &Path) -> Result<Vec<File>, Failure> {
    let files = folder::entries(folder).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("there is no folder {}", folder.display()),
        _ => format!("{}: {e}", folder.display()),
    })?;
    let named = |mut file: File| {
        let other = file.content.as_ref().ok();
        let other = other.map(|e| e.key.hash()).filter(|key| *key != file.hash);
        if let Some(key) = other {
            file.content = Err(format!("it is the entry of another key, {key}"));
        }
        file
    };
    Ok(files.into_iter().map(entry).map(named).collect())
}

/// What a file holds, whatever its name is.
pub fn entry(path: PathBuf) -> File {
    let content = folder::bytes(&path)
        .map_err(|e| e.to_string())
        .and_then(|text| text.ok_or_else(|| "there is no such file".into()))
        .and_then(|text| read(&text).map_err(|e| e.to_string()));
    let hash = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    File {
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
