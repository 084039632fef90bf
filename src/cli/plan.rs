//! `cargo eindecomp plan`.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use eindecomp_core::plan::Plan;
use eindecomp_core::plan::cache::encode;
use serde_json::json;

use super::args::PlanArgs;
use super::failure::Failure;
use super::targets::{Configured, Target};
use super::{Outcome, bar, folder, print_json};
use crate::machine;

/// What became of a target.
struct Done {
    plan: Plan,
    /// Seconds; `None` if it was there.
    planned: Option<f64>,
    /// Why the entry that was there was none.
    stale: Option<String>,
}

pub fn run(args: &PlanArgs, json: bool) -> Result<Outcome, Failure> {
    let package = Configured::find(&args.project)?;
    // the crate may include it when it is built to be asked for its blocks
    let folder = &package.folder;
    let io = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(io)?;
    crate::cache::folder::keep_lines(folder).map_err(io)?;
    let targets = package.targets(&args.project)?;
    let jobs = args.jobs.map_or_else(machine::cores, NonZeroUsize::get);
    let bar = bar(targets.all.len() as u64)?;
    let make = |target: &Target| -> Result<Done, Failure> {
        let kept = folder::plan(&targets.folder, target).filter(|_| !args.force);
        let stale = match kept {
            Some(Ok((plan, _))) => {
                return Ok(Done {
                    plan,
                    planned: None,
                    stale: None,
                });
            }
            other => other.and_then(Result::err),
        };
        bar.set_message(target.to_string());
        let start = Instant::now();
        let (plan, _) = target.plan().map_err(|e| format!("{target}: {e}"))?;
        let planned = Some(start.elapsed().as_secs_f64());
        let text = encode(&target.key, &target.subject, &plan);
        crate::cache::folder::store(&targets.folder, target.hash(), text.as_bytes())
            .map_err(|e| format!("{}: {e}", targets.folder.display()))?;
        Ok(Done {
            plan,
            planned,
            stale,
        })
    };
    let done = in_parallel(jobs, &targets.all, |target| {
        let done = make(target);
        bar.inc(1);
        done
    });
    bar.finish_and_clear();
    let (mut errors, mut report) = (Vec::new(), Vec::new());
    for (target, done) in targets.all.iter().zip(done) {
        match done {
            Ok(done) => {
                report.push(json!({
                    "block": target.subject.block,
                    "dims": target.subject.dims,
                    "cluster": target.subject.cluster,
                    "key": target.hash(),
                    "planned_seconds": done.planned,
                    "replaced": done.stale,
                    "moved_bytes": done.plan.moved_bytes.to_string(),
                    "proved": done.plan.certificate.to_string(),
                }));
                if !json {
                    let how = match (done.planned, done.stale) {
                        (None, _) => "there".into(),
                        (Some(seconds), None) => format!("planned in {seconds:.2} s"),
                        (Some(seconds), Some(why)) => {
                            format!("planned in {seconds:.2} s, in place of a stale entry ({why})")
                        }
                    };
                    say!(
                        "{} {target}: {how}, moves {} B, {}",
                        &target.hash()[..12],
                        done.plan.moved_bytes,
                        done.plan.certificate
                    )?;
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if json {
        print_json(&report.into())?;
    }
    match errors.is_empty() {
        true => Ok(Outcome::Good),
        false => Err(Failure::all(errors)),
    }
}

/// `f` of every item, in order, on so many threads.
fn in_parallel<T: Sync, R: Send>(jobs: usize, items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = f(item);
                    let mut done = done.lock().unwrap_or_else(|e| e.into_inner());
                    done.push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
