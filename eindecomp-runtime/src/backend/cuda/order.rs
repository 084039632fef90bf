//! Which steps of other streams a step waits for: as few as give every dependency.
//!
//! A step is known to be done where a stream comes after it: on its own stream by order, elsewhere by an
//! event, or because something that is known to be done waited for it. A clock holds, per stream, how many
//! of its steps are known to be done. Of the dependencies of a step, the latest are looked at first: an
//! earlier step never comes after a later one.

use super::driver::{Command, EventId, GpuError, Op, StreamId, Touch};

/// What a stream does in order, each with what it uses.
pub type Ops = Vec<(Op, Vec<Touch>)>;

/// Commands of one stream that nothing comes between.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The stream.
    pub stream: StreamId,
    /// What is done.
    pub ops: Ops,
    /// Positions of earlier steps that come before it.
    pub deps: Vec<u32>,
}

/// Per step, the earlier steps of other streams whose events it waits for, latest first.
pub fn waits(steps: &[Step]) -> Vec<Vec<u32>> {
    let streams = steps.iter().map(|s| s.stream.0 as usize + 1).max();
    let mut last: Vec<Option<u32>> = vec![None; streams.unwrap_or(0)];
    let mut clocks: Vec<Vec<u32>> = Vec::with_capacity(steps.len());
    // Per step, how many steps of its stream there are up to it.
    let mut numbers = Vec::with_capacity(steps.len());
    let mut all = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let stream = step.stream.0 as usize;
        let mut clock = match last[stream] {
            Some(before) => clocks[before as usize].clone(),
            None => vec![0; last.len()],
        };
        let mut deps = step.deps.clone();
        deps.sort_unstable();
        deps.dedup();
        let mut waits = Vec::new();
        for dep in deps.into_iter().rev() {
            let on = steps[dep as usize].stream.0 as usize;
            if clock[on] < numbers[dep as usize] {
                waits.push(dep);
                let theirs = &clocks[dep as usize];
                clock
                    .iter_mut()
                    .zip(theirs)
                    .for_each(|(c, t)| *c = (*c).max(*t));
            }
        }
        clock[stream] += 1;
        numbers.push(clock[stream]);
        clocks.push(clock);
        last[stream] = Some(at as u32);
        all.push(waits);
    }
    all
}

/// The commands of steps, with the events that they need; `event` makes one for a stream.
///
/// # Errors
/// Those of `event`.
pub fn commands(
    steps: Vec<Step>,
    mut event: impl FnMut(StreamId) -> Result<EventId, GpuError>,
) -> Result<Vec<Command>, GpuError> {
    let waits = waits(&steps);
    let mut events: Vec<Option<EventId>> = vec![None; steps.len()];
    for &dep in waits.iter().flatten() {
        if events[dep as usize].is_none() {
            events[dep as usize] = Some(event(steps[dep as usize].stream)?);
        }
    }
    let mut commands = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let stream = step.stream;
        let mut push = |op, touches| {
            commands.push(Command {
                stream,
                op,
                touches,
            })
        };
        for &dep in &waits[at] {
            if let Some(event) = events[dep as usize] {
                push(Op::Wait(event), Vec::new());
            }
        }
        step.ops
            .into_iter()
            .for_each(|(op, touches)| push(op, touches));
        if let Some(event) = events[at] {
            push(Op::Record(event), Vec::new());
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(stream: u32, deps: &[u32]) -> Step {
        Step {
            stream: StreamId(stream),
            ops: Vec::new(),
            deps: deps.to_vec(),
        }
    }

    /// Which steps come before which, by streams and waits alone.
    fn before(steps: &[Step], waits: &[Vec<u32>]) -> Vec<Vec<bool>> {
        let mut before = vec![vec![false; steps.len()]; steps.len()];
        for at in 0..steps.len() {
            let same = (0..at).rev().find(|&b| steps[b].stream == steps[at].stream);
            for b in waits[at].iter().map(|&w| w as usize).chain(same) {
                let theirs = before[b].clone();
                before[at].iter_mut().zip(theirs).for_each(|(a, t)| *a |= t);
                before[at][b] = true;
            }
        }
        before
    }

    fn holds(steps: &[Step], waits: &[Vec<u32>]) -> bool {
        let before = before(steps, waits);
        let deps = steps.iter().zip(&before);
        deps.into_iter()
            .all(|(s, b)| s.deps.iter().all(|&d| b[d as usize]))
    }

    #[test]
    fn what_is_known_is_not_waited_for() {
        // 0 and 1 on stream 0; 2 waits for 1, so 0 is done; 3 follows 2; 4 waits for 3, so all are.
        let steps = [
            step(0, &[]),
            step(0, &[0]),
            step(1, &[0, 1]),
            step(1, &[1]),
            step(2, &[0, 2, 3]),
        ];
        assert_eq!(waits(&steps), [vec![], vec![], vec![1], vec![], vec![3]]);
    }

    proptest! {
        #[test]
        fn waits_are_enough_and_none_is_too_many(
            rows in prop::collection::vec((0u32..4, prop::collection::vec(any::<u32>(), 0..4)), 1..24),
        ) {
            let steps: Vec<Step> = rows.iter().enumerate().map(|(at, (stream, deps))| {
                let deps: Vec<u32> = match at {
                    0 => Vec::new(),
                    _ => deps.iter().map(|d| d % at as u32).collect(),
                };
                step(*stream, &deps)
            }).collect();
            let all = waits(&steps);
            prop_assert!(holds(&steps, &all));
            for at in 0..all.len() {
                for n in 0..all[at].len() {
                    let mut fewer = all.clone();
                    fewer[at].remove(n);
                    prop_assert!(!holds(&steps, &fewer), "step {at} need not wait for {}", all[at][n]);
                }
            }
        }
    }
}
