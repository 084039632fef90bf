//! The least input with a fault.

use super::fault;
use super::input::Input;

/// As many inputs are tried.
const TRIES: usize = 4000;

/// What faults have in common whose cause is the same, as far as words tell.
pub fn kind(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    line.chars().take(70).collect()
}

/// `input` with all that can be left out of it left out, such that it has the same kind of fault.
pub fn least(input: &Input, what: &str) -> Input {
    let still =
        |input: &Input| matches!(fault(input, true), Err(other) if kind(&other) == kind(what));
    let (mut least, mut tries) = (input.clone(), 0);
    loop {
        let smaller = least.smaller().into_iter();
        let next = smaller.take_while(|_| {
            tries += 1;
            tries < TRIES
        });
        match next.into_iter().find(still) {
            Some(next) => least = next,
            None => return least,
        }
    }
}
