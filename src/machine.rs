//! This machine's figures, measured once and kept in `machine.json` beside the plans.
//!
//! [`Objective::Time`](crate::Objective) reads them through [`cluster`], or
//! [`SessionBuilder::this_machine`](crate::SessionBuilder::this_machine). The file is rewritten only
//! when a figure has changed by more than 15 %, so that plans stay what they are.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::cluster::{Calibration, ClusterError};

use crate::Error;
use crate::cache::folder;

/// The file's name, without its extension.
const NAME: &str = "machine";

/// Why there are no figures of this machine.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The file cannot be read.
    #[error("{} cannot be read: {message}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The file is none of this version's; calibrate again.
    #[error("{} has no figures of a machine: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file's figures cannot be; calibrate again.
    #[error("{} has impossible figures: {source}", path.display())]
    Figures {
        /// The file.
        path: PathBuf,
        /// Which figure.
        source: ClusterError,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

eindecomp_core::debug_is_text!(MachineError);

/// What became of newly measured figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// There was no file, or none that could be used.
    New,
    /// Some figure had changed by more than 15 %: the file holds the new ones.
    Changed,
    /// The file stays: its figures are still right.
    Kept,
}

/// Where figures are kept unless told otherwise: the folder of plans (`EINDECOMP_CACHE`, else
/// `eindecomp` in the user's cache folder).
pub fn default_folder() -> Option<PathBuf> {
    crate::session::default_cache_dir()
}

/// Cores of this machine that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Measures this machine, which takes some seconds and should have nothing else to do, and keeps the
/// figures in `folder`, unless those that are there differ little. `progress` is told, before each
/// figure, how many are done, how many there are, and what comes.
///
/// # Errors
/// Too little memory; a file that cannot be written.
pub fn calibrate(
    folder: &Path,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<(Calibration, Outcome), Error> {
    let measured = eindecomp_runtime::calibrate(cores(), progress)?;
    Ok(keep(folder, measured)?)
}

/// Writes figures unless those of the file differ little; the figures of the file.
fn keep(folder: &Path, measured: Calibration) -> Result<(Calibration, Outcome), MachineError> {
    let outcome = match calibration(folder) {
        Ok(Some(before)) if !measured.differs(&before) => return Ok((before, Outcome::Kept)),
        Ok(Some(_)) => Outcome::Changed,
        _ => Outcome::New,
    };
    folder::store(folder, NAME, measured.to_json().as_bytes()).map_err(|source| {
        let path = folder::entry(folder, NAME);
        MachineError::Write { path, source }
    })?;
    Ok((measured, outcome))
}

/// The figures in `folder`; `None` if nothing was measured.
///
/// # Errors
/// A file that cannot be read, or that has no possible figures.
pub fn calibration(folder: &Path) -> Result<Option<Calibration>, MachineError> {
    let path = folder::entry(folder, NAME);
    let text = match folder::bytes(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(error) => {
            let message = error.to_string();
            return Err(MachineError::Read { path, message });
        }
    };
    let figures = match Calibration::from_json(&text) {
        Ok(figures) => figures,
        Err(source) => {
            let source = source.into();
            return Err(MachineError::Json { path, source });
        }
    };
    match figures.verify() {
        Ok(()) => Ok(Some(figures)),
        Err(source) => Err(MachineError::Figures { path, source }),
    }
}

/// `devices` devices, at least 1, on this machine, by the figures in `folder`; by those of a machine
/// of the usual size with as many cores where nothing was measured.
///
/// # Errors
/// As [`calibration`].
pub fn cluster(folder: Option<&Path>, devices: u32) -> Result<Cluster, MachineError> {
    let measured = folder.map(calibration).transpose()?.flatten();
    let nominal = || Calibration::nominal(u32::try_from(cores()).unwrap_or(1));
    Ok(Cluster::calibrated(
        devices,
        &measured.unwrap_or_else(nominal),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_kept_until_they_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        assert_eq!(calibration(folder).expect("no file"), None);
        let first = Calibration::nominal(2);
        let keep = |figures: &Calibration| keep(folder, figures.clone()).expect("a folder");
        assert_eq!(keep(&first), (first.clone(), Outcome::New));
        let mut near = first.clone();
        near.rates.f32.matmul += near.rates.f32.matmul / 10;
        assert_eq!(keep(&near), (first.clone(), Outcome::Kept));
        assert_eq!(calibration(folder).expect("a file"), Some(first));
        near.rates.f32.matmul *= 2;
        assert_eq!(keep(&near), (near.clone(), Outcome::Changed));
        assert_eq!(calibration(folder).expect("a file"), Some(near.clone()));
        let here = cluster(Some(folder), 3).expect("a file");
        assert_eq!(here.devices(), 3);
        assert_eq!(here.server.device.rates, near.rates);
        let nobody = cluster(None, 1).expect("no file");
        assert_eq!(nobody.server.cores, Some(cores() as u32));
    }

    #[test]
    fn files_that_are_no_figures_are_refused_and_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let path = folder.join("machine.json");
        let figures = Calibration::nominal(2);
        let good = figures.to_json();
        let zero = good.replacen("\"cores\": 2", "\"cores\": 0", 1);
        let nan = good.replacen("\"cores\": 2", "\"cores\": NaN", 1);
        for text in ["", "{}", "\u{0}", &nan, &(good.clone() + "x")] {
            std::fs::write(&path, text).expect("a folder");
            let error = calibration(folder).unwrap_err();
            assert!(matches!(error, MachineError::Json { .. }), "{error}");
        }
        std::fs::write(&path, &zero).expect("a folder");
        let error = calibration(folder).unwrap_err();
        assert!(matches!(error, MachineError::Figures { .. }), "{error}");
        let error = crate::Session::builder().cache_dir(folder).this_machine(2);
        let error = error.build().err().expect("impossible figures");
        assert!(error.to_string().ends_with("share 0 cores"), "{error}");
        let kept = keep(folder, figures.clone()).expect("a folder");
        assert_eq!(kept, (figures, Outcome::New));
    }
}
