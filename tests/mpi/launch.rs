//! Jobs of this program.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::TEST;

/// How a job must end.
#[derive(Clone, Copy)]
pub enum End {
    /// With success, each rank having printed this line.
    Well(&'static str),
    /// Without, having printed all of these.
    Badly(&'static [&'static str]),
    /// Without, after one rank is killed, and leaving no other.
    Killed,
}

/// What ranks do, and what must come of it.
pub struct Test {
    pub name: &'static str,
    pub ranks: &'static [u32],
    pub rank: fn(),
    pub end: End,
    pub env: &'static [(&'static str, &'static str)],
    /// KiB of address space of each rank.
    pub memory: Option<u64>,
}

/// A job that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// From the death of a rank to that of the job.
const REACTION: Duration = Duration::from_secs(10);

/// The MPI that is installed, and a folder for what jobs keep.
pub struct Launcher {
    open_mpi: bool,
    folder: tempfile::TempDir,
}

pub fn launcher() -> Option<Launcher> {
    let version = Command::new("mpirun").arg("--version").output().ok()?;
    let open_mpi = String::from_utf8_lossy(&version.stdout).contains("Open MPI");
    let folder = tempfile::tempdir().ok()?;
    Some(Launcher { open_mpi, folder })
}

impl Launcher {
    fn start(&self, test: &Test, ranks: u32) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new("mpirun");
        if self.open_mpi {
            command.args([
                "--oversubscribe",
                "--allow-run-as-root",
                "--bind-to",
                "none",
            ]);
            command.env("OMPI_MCA_btl_base_warn_component_unused", "0");
        }
        command.arg("-n").arg(ranks.to_string());
        if let Some(memory) = test.memory {
            command.args(["sh", "-c", &format!("ulimit -v {memory}; exec \"$0\"")]);
        }
        command.arg(program).env(TEST, test.name);
        command.env("EINDECOMP_MODE", "off");
        command.env("EINDECOMP_CACHE", self.folder.path());
        command.envs(test.env.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| format!("mpirun: {e}"))
    }

    /// Runs a job to its end.
    pub fn run(&self, test: &Test, ranks: u32) -> Result<(), String> {
        let mut job = self.start(test, ranks)?;
        let readers = [reader(job.stdout.take()), reader(job.stderr.take())];
        let mut limit = Instant::now() + LIMIT;
        let mut children = Vec::new();
        if let End::Killed = test.end {
            // Somewhere in the middle of its runs, another place each time.
            let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let nanos = nanos.map_or(0, |d| d.subsec_nanos());
            std::thread::sleep(Duration::from_millis(400 + u64::from(nanos % 800)));
            children = ranks_of(job.id());
            let victim = children.get(nanos as usize % children.len().max(1));
            let victim = victim.ok_or("the job has no ranks to kill")?;
            let killed = Command::new("kill")
                .args(["-9", &victim.to_string()])
                .status();
            killed.map_err(|e| format!("kill: {e}"))?;
            limit = Instant::now() + REACTION;
        }
        let status = loop {
            match job.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if Instant::now() > limit => {
                    let left = ranks_of(job.id());
                    for process in left.iter().chain([&job.id()]) {
                        let _ = Command::new("kill")
                            .args(["-9", &process.to_string()])
                            .status();
                    }
                    let _ = job.wait();
                    return Err(format!("it hangs\n{}", printed(readers)));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let text = printed(readers);
        let wrong = |why: String| Err(format!("{why}\n{text}"));
        match test.end {
            End::Well(line) => match text.lines().filter(|l| *l == line).count() {
                _ if !status.success() => wrong(status.to_string()),
                n if n == ranks as usize => Ok(()),
                n => wrong(format!("{n} of {ranks} ranks said `{line}`")),
            },
            _ if status.success() => wrong("it ended well".into()),
            End::Killed => {
                let left = |p: &u32| std::path::Path::new(&format!("/proc/{p}")).exists();
                while children.iter().any(left) {
                    if Instant::now() > limit {
                        return wrong("ranks are left".into());
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(())
            }
            End::Badly(parts) => match parts.iter().find(|part| !text.contains(**part)) {
                None => Ok(()),
                Some(part) => wrong(format!("it did not say `{part}`")),
            },
        }
    }
}

type Reader = std::thread::JoinHandle<String>;

fn reader(from: Option<impl std::io::Read + Send + 'static>) -> Reader {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn printed(readers: [Reader; 2]) -> String {
    readers.map(|r| r.join().unwrap_or_default()).concat()
}

/// The processes that `mpirun` started here, itself (Open MPI) or through a process of its own (MPICH).
fn ranks_of(mpirun: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |process: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        let parent = after_name.split_whitespace().nth(1)?.parse::<u32>().ok()?;
        Some((parent, process))
    };
    let numbers = processes.filter_map(|p| p.file_name().to_str()?.parse().ok());
    let all: Vec<(u32, u32)> = numbers.filter_map(parent).collect();
    let children = |of: u32| {
        all.iter()
            .filter(move |(parent, _)| *parent == of)
            .map(|(_, p)| *p)
    };
    let mut ranks: Vec<u32> = children(mpirun)
        .flat_map(|child| match children(child).next() {
            None => vec![child],
            Some(_) => children(child).collect(),
        })
        .collect();
    ranks.sort_unstable();
    ranks
}
