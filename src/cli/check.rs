//! `cargo eindecomp check` and `prune`: entries against targets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use eindecomp_core::plan::cache::{Difference, PLANNER, Subject, differences};
use serde_json::{Value, json};

use super::args::{Project, PruneArgs};
use super::failure::Failure;
use super::folder;
use super::targets::{self, Target, Targets};
use super::{Outcome, counted, print_json};

/// What a plan or an entry is found to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is needed, and there.
    Ok,
    /// It is needed, and there is no entry.
    Missing,
    /// Its entry is damaged, or of another version of the planner.
    Stale,
    /// A good entry that nothing needs.
    Dead,
}

impl State {
    const ALL: [State; 4] = [State::Ok, State::Missing, State::Stale, State::Dead];

    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Stale => "stale",
            State::Dead => "dead",
        }
    }
}

/// A plan that is needed, or another entry.
struct Line {
    state: State,
    key: String,
    /// `None` of a file that does not say it.
    subject: Option<Subject>,
    why: Option<String>,
    /// The file, if there is one.
    file: Option<PathBuf>,
}

impl Line {
    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "state": self.state.name(),
            "block": self.subject.as_ref().map(|s| &s.block),
            "dims": self.subject.as_ref().map(|s| &s.dims),
            "cluster": self.subject.as_ref().map(|s| &s.cluster),
            "why": self.why,
        })
    }

    fn say(&self) -> Result<(), Failure> {
        let subject = self.subject.as_ref().map(Subject::to_string);
        let why = self.why.clone();
        let what: Vec<String> = subject.into_iter().chain(why).collect();
        let (state, key) = (self.state.name(), &self.key[..12]);
        say!("{state:7} {key} {}", what.join(": "))
    }
}

/// Every plan that is needed and every other entry of a folder.
struct Report {
    lines: Vec<Line>,
    /// Entries that the command line leaves out.
    others: usize,
}

impl Report {
    fn of(targets: &Targets) -> Result<Report, Failure> {
        let needed: BTreeSet<&str> = targets.all.iter().map(|t| t.hash()).collect();
        let mut lines = Vec::new();
        let files = match targets.folder.exists() {
            true => folder::entries(&targets.folder)?,
            // every plan is missing
            false => Vec::new(),
        };
        for target in &targets.all {
            let (state, why) = match folder::plan(&targets.folder, target) {
                Some(Ok(_)) => (State::Ok, None),
                Some(Err(why)) => (State::Stale, Some(why)),
                None => (State::Missing, alike(&files, target)),
            };
            let file = crate::cache::folder::entry(&targets.folder, target.hash());
            lines.push(Line {
                state,
                key: target.hash().into(),
                subject: Some(target.subject.clone()),
                why,
                file: (state != State::Missing).then_some(file),
            });
        }
        let mut others = 0;
        for file in files {
            if needed.contains(&file.hash[..]) {
                continue;
            }
            let entry = file.content.as_ref();
            let subject = entry.ok().map(|e| e.subject.clone());
            if !targets.judge(&file.hash, subject.as_ref()) {
                others += 1;
                continue;
            }
            let (state, why) = match entry {
                Err(why) => (State::Stale, why.clone()),
                Ok(e) if e.key.planner != PLANNER => {
                    let by = format!("made by {}, not {PLANNER}", e.key.planner);
                    (State::Stale, by)
                }
                Ok(_) => (State::Dead, "nothing needs it".into()),
            };
            lines.push(Line {
                state,
                key: file.hash,
                subject,
                why: Some(why),
                file: Some(file.path),
            });
        }
        Ok(Report { lines, others })
    }

    fn count(&self, state: State) -> usize {
        self.lines.iter().filter(|l| l.state == state).count()
    }

    fn outcome(&self) -> Outcome {
        match (
            self.count(State::Missing) + self.count(State::Stale),
            self.count(State::Dead),
        ) {
            (0, 0) => Outcome::Good,
            (0, _) => Outcome::Spare,
            _ => Outcome::Found,
        }
    }
}

/// How an entry for the same block, dims and cluster differs from what is missing.
fn alike(files: &[folder::File], target: &Target) -> Option<String> {
    let entries = files
        .iter()
        .filter_map(|f| Some((&f.hash, f.content.as_ref().ok()?)));
    let differ = entries.filter(|(_, entry)| entry.subject == target.subject);
    let differ = differ.map(|(hash, entry)| (hash, differences(&target.key, &entry.key)));
    let (hash, differ) = differ.min_by_key(|(_, differ)| differ.len())?;
    let differ: Vec<String> = differ.iter().map(Difference::to_string).collect();
    Some(format!(
        "entry {} differs in {}",
        &hash[..12],
        differ.join("; ")
    ))
}

pub fn run(args: &Project, json: bool) -> Result<Outcome, Failure> {
    let targets = targets::of(args)?;
    let report = Report::of(&targets)?;
    let (folder, others) = (targets.folder.display().to_string(), report.others);
    let counts = State::ALL.map(|state| (state.name(), report.count(state)));
    if json {
        let lines: Vec<Value> = report.lines.iter().map(Line::json).collect();
        let mut summary = BTreeMap::from(counts);
        summary.insert("needed", targets.all.len());
        summary.insert("not_looked_at", others);
        print_json(&json!({ "folder": folder, "plans": lines, "summary": summary }))?;
        return Ok(report.outcome());
    }
    for line in report.lines.iter().filter(|l| l.state != State::Ok) {
        line.say()?;
    }
    let counts = counts.map(|(name, count)| format!("{count} {name}"));
    let others = match others {
        0 => String::new(),
        n => format!("; not looked at: {n}"),
    };
    say!(
        "{} needed; {} in {folder}{others}",
        counted(targets.all.len(), "plan", "plans"),
        counts.join(", ")
    )?;
    Ok(report.outcome())
}

pub fn prune(args: &PruneArgs, json: bool) -> Result<Outcome, Failure> {
    let project = &args.project;
    if project.block.is_some() || !project.dims.is_empty() || !project.cluster.is_empty() {
        return Err(Failure::Usage(
            "prune looks at all that eindecomp.toml names: leave out --block, --dims and --cluster"
                .into(),
        ));
    }
    let targets = targets::of(project)?;
    let mut lines = Report::of(&targets)?.lines;
    lines.retain(|l| matches!(l.state, State::Stale | State::Dead) && l.file.is_some());
    if !args.dry_run {
        let files = lines.iter().filter_map(|l| l.file.as_ref());
        let failed = files.filter_map(|file| {
            let error = std::fs::remove_file(file).err()?;
            Some(format!("{}: {error}", file.display()).into())
        });
        // one that stays keeps no other one
        let failed: Vec<Failure> = failed.collect();
        if !failed.is_empty() {
            return Err(Failure::all(failed));
        }
    }
    let (folder, removed) = (targets.folder.display().to_string(), !args.dry_run);
    if json {
        let lines: Vec<Value> = lines.iter().map(Line::json).collect();
        print_json(&json!({ "folder": folder, "removed": removed, "entries": lines }))?;
        return Ok(Outcome::Good);
    }
    for line in &lines {
        line.say()?;
    }
    let count = |state| lines.iter().filter(|l| l.state == state).count();
    let what = match removed {
        true => "removed from",
        false => "would be removed from",
    };
    let (stale, dead) = (count(State::Stale), count(State::Dead));
    let dead = counted(dead, "dead entry", "dead entries");
    say!("{stale} stale and {dead} {what} {folder}")?;
    Ok(Outcome::Good)
}
