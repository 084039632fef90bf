//! The file of a plan. What stands around key and plan is fixed, so that an entry is checked and taken
//! apart before any JSON is read:
//!
//! ```text
//! {
//!   "format": 3,
//!   "for": {…},
//!   "key": {…},
//!   "plan": {…},
//!   "sha256": "…"
//! }
//! ```
//!
//! `for` is on one line. `sha256` is that of the key's hash (SHA-256 of the key's text, in hexadecimal digits), the
//! text of `for`, a line break and the plan's text.

use super::key::{Key, WrittenKey, differences, sha256};
use super::lines::to_line;
use super::subject::Subject;
use super::table;
use crate::graph::BoundGraph;
use crate::plan::verify::{self, verify};
use crate::plan::{Cluster, Plan, Residency};
use crate::task::TaskGraph;

/// Version of the format.
pub(super) const FORMAT: u32 = 3;
const BEFORE_FORMAT: &str = "{\n  \"format\": ";
const BEFORE_FOR: &str = ",\n  \"for\": ";
const BEFORE_KEY: &str = ",\n  \"key\": ";
const BEFORE_PLAN: &str = ",\n  \"plan\": ";
const BEFORE_HASH: &str = ",\n  \"sha256\": \"";
const END: &str = "\"\n}\n";
/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// Why a file is no entry for a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Not written as [`encode`] does.
    #[error("it is no plan entry")]
    Text,
    /// Its lines end as those of another system: git or an editor changed them.
    #[error(
        "its lines end in CRLF, so it is no plan entry any more: `*.json -text` in the folder's .gitattributes keeps git from that"
    )]
    LineEnds,
    /// Another format.
    #[error("it has format {0}, not {FORMAT}")]
    Format(u32),
    /// Not what was hashed.
    #[error("its content does not match its hash")]
    Hash,
    /// A subject, key or plan that is none.
    #[error("it is no plan entry: {0}")]
    Json(#[from] serde_json::Error),
    /// An entry of another key.
    #[error("it is for another key: the {0} differs")]
    Key(String),
    /// A plan by another model or residency than the key's.
    #[error("its plan is not one of its key's: the {0} differs")]
    Plan(&'static str),
    /// A plan that depends on how long its search could take.
    #[error("its plan was stopped at a limit of time")]
    Stopped,
    /// A plan that does not fit the graph or the cluster.
    #[error("its plan breaks a rule: {0}")]
    Rule(#[from] verify::InvalidPlan),
}

/// What an entry says.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the plan is for.
    pub subject: Subject,
    /// What it depends on.
    pub key: WrittenKey,
    /// The plan.
    pub plan: Plan,
}

/// The entry of a plan: equal for equal keys, subjects and plans.
pub fn encode(key: &WrittenKey, subject: &Subject, plan: &Plan) -> String {
    let entry = sealed(
        key,
        to_line(subject).as_bytes(),
        table::write(plan).as_bytes(),
    );
    String::from_utf8(entry).expect("subjects, keys and plans are UTF-8")
}

/// The entry of a subject's and a plan's text.
pub(super) fn sealed(key: &WrittenKey, subject: &[u8], plan: &[u8]) -> Vec<u8> {
    let (format, hash) = (FORMAT.to_string(), seal(key, subject, plan));
    [
        BEFORE_FORMAT.as_bytes(),
        format.as_bytes(),
        BEFORE_FOR.as_bytes(),
        subject,
        BEFORE_KEY.as_bytes(),
        key.text().as_bytes(),
        BEFORE_PLAN.as_bytes(),
        plan,
        BEFORE_HASH.as_bytes(),
        hash.as_bytes(),
        END.as_bytes(),
    ]
    .concat()
}

fn seal(key: &WrittenKey, subject: &[u8], plan: &[u8]) -> String {
    sha256([key.hash().as_bytes(), subject, b"\n", plan])
}

/// The text of the subject, and what follows `"key": `.
fn content(text: &[u8]) -> Result<(&[u8], &[u8]), EntryError> {
    if text.starts_with(b"{\r\n") {
        return Err(EntryError::LineEnds);
    }
    let format = text.strip_prefix(BEFORE_FORMAT.as_bytes());
    let format = format.ok_or(EntryError::Text)?;
    let digits = format.iter().take_while(|b| b.is_ascii_digit()).count();
    let (format, content) = format.split_at(digits);
    let number = std::str::from_utf8(format)
        .ok()
        .and_then(|f| f.parse().ok());
    match number.ok_or(EntryError::Text)? {
        FORMAT if format == FORMAT.to_string().as_bytes() => {}
        FORMAT => return Err(EntryError::Text),
        other => return Err(EntryError::Format(other)),
    }
    let content = content.strip_prefix(BEFORE_FOR.as_bytes());
    let content = content.ok_or(EntryError::Text)?;
    // before the comma that ends its line
    let end = content.iter().position(|&b| b == b'\n').unwrap_or(0);
    let (subject, rest) = content.split_at(end.saturating_sub(1));
    let rest = rest.strip_prefix(BEFORE_KEY.as_bytes());
    Ok((subject, rest.ok_or(EntryError::Text)?))
}

/// The text of the key, and what follows it. No text of a key has a line break before `"plan"`.
fn key_text(content: &[u8]) -> Result<(&[u8], &[u8]), EntryError> {
    let before = BEFORE_PLAN.as_bytes();
    let at = content.windows(before.len()).position(|w| w == before);
    Ok(content.split_at(at.ok_or(EntryError::Text)?))
}

/// Subject and plan, of the text of the one and of what follows the key.
fn unsealed(subject: &[u8], key: &WrittenKey, text: &[u8]) -> Result<(Subject, Plan), EntryError> {
    let text = text.strip_prefix(BEFORE_PLAN.as_bytes());
    let text = text.and_then(|t| t.strip_suffix(END.as_bytes()));
    let text = text.ok_or(EntryError::Text)?;
    let (text, hash) = text
        .split_at_checked(text.len().wrapping_sub(DIGITS))
        .ok_or(EntryError::Text)?;
    let text = text
        .strip_suffix(BEFORE_HASH.as_bytes())
        .ok_or(EntryError::Text)?;
    if hash != seal(key, subject, text).as_bytes() {
        return Err(EntryError::Hash);
    }
    Ok((serde_json::from_slice(subject)?, table::read(text)?))
}

/// What an entry says, whatever it is an entry of: format, text, hash and JSON are checked; whether the
/// plan fits its graph is not.
///
/// # Errors
/// The first check that fails.
pub fn read(text: &[u8]) -> Result<Entry, EntryError> {
    let (subject, content) = content(text)?;
    let (text, rest) = key_text(content)?;
    let key = serde_json::from_slice::<Key>(text)?.written();
    if key.text().as_bytes() != text {
        return Err(EntryError::Text);
    }
    let (subject, plan) = unsealed(subject, &key, rest)?;
    Ok(Entry { subject, key, plan })
}

/// The plan of an entry of a key: that the entry is whole and for this key is checked, the plan's own
/// rules are not.
///
/// # Errors
/// The first check that fails.
pub fn open(text: &[u8], key: &WrittenKey) -> Result<Plan, EntryError> {
    let (subject, content) = content(text)?;
    let found = match content.strip_prefix(key.text().as_bytes()) {
        Some(rest) => unsealed(subject, key, rest)?.1,
        None => {
            let all = differences(key, &read(text)?.key);
            let part = all.into_iter().next().map(|d| d.part);
            return Err(EntryError::Key(part.unwrap_or_default()));
        }
    };
    if found.model != key.model {
        return Err(EntryError::Plan("cost model"));
    }
    if key.residency != Residency::Auto && found.residency != key.residency {
        return Err(EntryError::Plan("residency"));
    }
    if found.constraints != key.constraints {
        return Err(EntryError::Plan("constraints"));
    }
    if found.certificate.stopped {
        return Err(EntryError::Stopped);
    }
    Ok(found)
}

/// The plan of an entry of a key, after every check: those of [`open`], and the plan's own
/// rules against graph and cluster.
///
/// # Errors
/// The first check that fails.
pub fn decode(
    text: &[u8],
    key: &WrittenKey,
    graph: &BoundGraph,
    cluster: &Cluster,
) -> Result<(Plan, TaskGraph), EntryError> {
    let plan = open(text, key)?;
    let tasks = verify(graph, &plan, cluster)?;
    Ok((plan, tasks))
}

/// Subject and key of an entry, whatever its plan is worth: for telling what the entries of a folder are.
///
/// # Errors
/// No entry's text, or another format.
pub fn head(text: &[u8]) -> Result<(Subject, Key), EntryError> {
    let (subject, content) = content(text)?;
    let (key, _) = key_text(content)?;
    Ok((
        serde_json::from_slice(subject)?,
        serde_json::from_slice(key)?,
    ))
}
