//! A folder of plan entries: one file per key, whole or not there at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use eindecomp_core::plan::cache::{EntryError, MAX_BYTES};

/// Temporaries of this age were left by a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// How often an entry is written again whose folder was removed under it.
const AGAIN: usize = 8;

/// Why a file of the folder was left out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    Kind,
    #[error("it has more than {MAX_BYTES} bytes")]
    Size,
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// The file of a key.
pub(crate) fn entry(folder: &Path, hash: &str) -> PathBuf {
    folder.join(format!("{hash}.json"))
}

/// Every entry's file, by name.
///
/// # Errors
/// The folder cannot be listed.
pub(crate) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().and_then(|n| n.to_str());
        if name
            .and_then(|n| n.strip_suffix(".json"))
            .is_some_and(is_hash)
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// 64 hexadecimal digits.
fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A file's content; `None` if there is no such file.
pub(crate) fn bytes(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    // before opening: opening a pipe waits for its writer
    let meta = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    if !meta.is_file() {
        return Err(ReadError::Kind);
    }
    if meta.len() > MAX_BYTES {
        return Err(ReadError::Size);
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Writes an entry, or another file that is named like one, whole or not at all.
pub(crate) fn store(folder: &Path, hash: &str, text: &[u8]) -> io::Result<()> {
    store_at(folder, hash, text, SystemTime::now())
}

/// The same at a time, which need not be right: it tells old temporaries, and helps to name new ones.
pub(super) fn store_at(folder: &Path, hash: &str, text: &[u8], now: SystemTime) -> io::Result<()> {
    // to make a folder that goes meanwhile fails as if something else were there
    let gone = |e: &io::Error| {
        matches!(
            e.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
        )
    };
    for _ in 0..AGAIN {
        match try_store(folder, hash, text, now) {
            Err(e) if gone(&e) => {}
            done => return done,
        }
    }
    try_store(folder, hash, text, now)
}

fn try_store(folder: &Path, hash: &str, text: &[u8], now: SystemTime) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // asked once: what was a folder then may be gone by now
    let other = |what: fs::Metadata| !(what.is_dir() || what.is_symlink() && folder.is_dir());
    if fs::symlink_metadata(folder).is_ok_and(other) {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is no folder",
        ));
    }
    fs::create_dir_all(folder)?;
    // numbers of processes repeat, on other machines and later
    let nanos = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos());
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    remove_stale(folder, now);
    let added = !entry(folder, hash).exists();
    let temporary = folder.join(format!(".{hash}.{process}.{nanos}.{count}.tmp"));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()
        })
        .and_then(|()| {
            let place = entry(folder, hash);
            let in_place =
                |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", place.display()));
            fs::rename(&temporary, &place).map_err(in_place)
        });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    if added {
        touch_another(folder, hash, now);
    }
    // the rename itself survives a crash once the folder is synced, where folders can be
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// What git is told in.
const ATTRIBUTES: &str = ".gitattributes";

/// Tells git, if nobody told it otherwise, to leave the entries of a folder as they are: with other line ends they are none.
pub(crate) fn keep_lines(folder: &Path) -> io::Result<()> {
    let path = folder.join(ATTRIBUTES);
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let done = |e: &io::Error| {
        // a folder that is gone is made again with its next entry
        matches!(
            e.kind(),
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
        )
    };
    let written = match file {
        Err(e) if done(&e) => return Ok(()),
        file => file?.write_all(b"*.json -text\n"),
    };
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
    written
}

/// Makes another file as new as an entry that was added: a build with `include_plans!` looks at the files that it had, and
/// is made again if one of them is newer.
fn touch_another(folder: &Path, hash: &str, now: SystemTime) {
    let (added, first) = (entry(folder, hash), folder.join(ATTRIBUTES));
    let entries = entries(folder).ok().into_iter().flatten();
    let mut others = std::iter::once(first)
        .chain(entries)
        .filter(|path| *path != added);
    let file = others.find_map(|path| OpenOptions::new().write(true).open(path).ok());
    // a folder that only holds plans for now is none the worse without
    let _ = file.map(|file| file.set_modified(now));
}

/// Removes temporaries that nobody will rename any more.
fn remove_stale(folder: &Path, now: SystemTime) {
    let Ok(files) = fs::read_dir(folder) else {
        return;
    };
    for file in files.flatten() {
        let name = file.file_name();
        let temporary = name.to_str().is_some_and(is_temporary);
        let age = file.metadata().and_then(|m| m.modified()).ok();
        let age = age.and_then(|then| now.duration_since(then).ok());
        if temporary && age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// `.` + 64 hexadecimal digits, or `machine`, + `.` … `.tmp`: nothing else in the folder is ever removed.
fn is_temporary(name: &str) -> bool {
    let hash = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp"));
    let hash = hash.and_then(|n| n.split_once('.')).map(|n| n.0);
    hash.is_some_and(|name| is_hash(name) || name == "machine")
}
