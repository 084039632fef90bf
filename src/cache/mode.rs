//! How a session comes to its plans.

use std::fmt;
use std::str::FromStr;

/// How a session comes to its plans.
///
/// | mode | looks in | a miss is | writes |
/// |---|---|---|---|
/// | `auto` | embedded plans, then the folder | planned | yes; a failure is a warning |
/// | `record` | the folder | planned | yes; a failure is an error |
/// | `frozen` | embedded plans, then the folder | an error | no |
/// | `verify` | embedded plans, then the folder | an error, and so is a plan that the planner would not make again | no |
/// | `off` | nothing | planned | no |
///
/// In each of them a plan is looked for once per process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Plans are found or made.
    #[default]
    Auto,
    /// The folder holds every plan that was used.
    Record,
    /// Nothing is ever planned or written: for production.
    Frozen,
    /// Every plan is made again and compared: for continuous integration.
    Verify,
    /// Plans end with the process.
    Off,
}

impl CacheMode {
    /// Every mode.
    pub const ALL: [CacheMode; 5] = [
        CacheMode::Auto,
        CacheMode::Record,
        CacheMode::Frozen,
        CacheMode::Verify,
        CacheMode::Off,
    ];
}

/// The name, as `EINDECOMP_MODE` has it.
impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheMode::Auto => "auto",
            CacheMode::Record => "record",
            CacheMode::Frozen => "frozen",
            CacheMode::Verify => "verify",
            CacheMode::Off => "off",
        })
    }
}

/// A text that is no mode.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no cache mode: they are `auto`, `record`, `frozen`, `verify` and `off`")]
pub struct UnknownMode(pub String);

eindecomp_core::debug_is_text!(UnknownMode);

impl FromStr for CacheMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<CacheMode, UnknownMode> {
        let mode = CacheMode::ALL.into_iter().find(|m| m.to_string() == text);
        mode.ok_or_else(|| UnknownMode(text.into()))
    }
}
