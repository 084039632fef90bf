//! Ranks that do not do the same thing are found before they wait for each other for ever.
//!
//! Before whatever the ranks do together, each tells rank 0 what it is about to do. Rank 0 compares as the
//! messages come, so that nobody waits; a difference ends the job.

use std::fmt;
use std::sync::{Arc, mpsc};

use super::{AGREE_TAG, Message, Receive, Transport};

/// What a rank is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Compile a graph.
    Compile,
    /// Give the weights.
    Load,
    /// Run.
    Run,
    /// Ask for the states.
    State,
    /// End.
    Leave,
}

impl Action {
    const ALL: [Action; 5] = [
        Action::Compile,
        Action::Load,
        Action::Run,
        Action::State,
        Action::Leave,
    ];
}

/// An action, and a hash of what it is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// With what.
    pub hash: u64,
}

/// `runs (0123456789abcdef)`
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Compile => "compiles",
            Action::Load => "loads weights",
            Action::Run => "runs",
            Action::State => "asks for states",
            Action::Leave => return f.write_str("ends"),
        };
        write!(f, "{action} ({:016x})", self.hash)
    }
}

const BYTES: usize = 9;

impl Step {
    fn message(self) -> Message {
        let mut bytes = [0; BYTES];
        bytes[0] = self.action as u8;
        bytes[1..].copy_from_slice(&self.hash.to_le_bytes());
        Message::from(&bytes[..])
    }

    /// `None` of another version's message.
    fn of(message: &Message) -> Option<Step> {
        let (action, hash) = message.bytes().split_first()?;
        Some(Step {
            action: *Action::ALL.get(usize::from(*action))?,
            hash: u64::from_le_bytes(hash.try_into().ok()?),
        })
    }
}

/// On rank 0: the other ranks whose step is yet to come.
pub struct Others(mpsc::Receiver<(u32, Step)>);

impl Others {
    /// Waits for all of them; the rank and step of those that differ, where the action is one whose
    /// difference does not end the job.
    pub fn wait(self) -> Vec<(u32, Step)> {
        self.0.iter().collect()
    }
}

/// Tells rank 0 what this rank is about to do. A difference ends the job, but for that of what is compiled,
/// which rank 0 is told of.
pub fn announce(transport: &Arc<dyn Transport>, step: Step) -> Others {
    let (sender, others) = mpsc::channel();
    if transport.rank() > 0 {
        transport.send(0, AGREE_TAG, step.message());
        return Others(others);
    }
    for from in 1..transport.ranks() {
        let (end, sender) = (transport.clone(), sender.clone());
        transport.receive(Receive {
            from,
            tag: AGREE_TAG,
            bytes: BYTES,
            what: Box::new(move || format!("what rank {from} does next: this rank {step}")),
            done: Box::new(move |message| match Step::of(&message) {
                Some(other) if other == step => {}
                Some(other) if other.action == step.action && step.action == Action::Compile => {
                    let _ = sender.send((from, other));
                }
                other => {
                    let other = other.map_or("is of another version".into(), |o| o.to_string());
                    end.abort(&format!("this rank {step}, but rank {from} {other}"))
                }
            }),
        });
    }
    Others(others)
}
