//! How plans are made, where the build can.

use crate::cache::Planner;

/// Plans a task and checks the plan; `None` without the feature `planner`.
#[cfg(not(feature = "planner"))]
pub(crate) const PLANNER: Planner = None;

/// Plans a task and checks the plan; `None` without the feature `planner`.
#[cfg(feature = "planner")]
pub(crate) const PLANNER: Planner = Some(|task| {
    let clock = watched::Clock::start(task.limit, task.shown);
    let plan = eindecomp_core::plan::plan_watched(task.graph, task.cluster, task.options, &clock)?;
    let tasks = eindecomp_core::plan::verify::verify(task.graph, &plan, task.cluster)?;
    Ok((plan, tasks))
});

#[cfg(feature = "planner")]
pub(crate) mod watched {
    use std::time::Duration;

    use eindecomp_core::plan::search::{Progress, Status};

    use crate::progress::Line;

    /// Ends a search at a limit, and shows that it lasts: on a terminal, where asked for.
    pub(crate) struct Clock {
        line: Line,
        limit: Option<Duration>,
        shown: bool,
    }

    impl Clock {
        pub fn start(limit: Option<Duration>, shown: bool) -> Clock {
            Clock {
                line: Line::start(),
                limit,
                shown,
            }
        }
    }

    impl Progress for Clock {
        fn keep_going(&self, status: &Status) -> bool {
            let elapsed = self.line.elapsed();
            if self.shown {
                self.line.tell(|| message(elapsed, status));
            }
            self.limit.is_none_or(|limit| elapsed < limit)
        }
    }

    /// `planning: 12 s, within 3.4 % so far`
    fn message(elapsed: Duration, status: &Status) -> String {
        let seconds = elapsed.as_secs();
        match status.best {
            Some(best) if status.bound > 0 && best < u128::MAX => {
                let gap = (best as f64 / status.bound as f64 - 1.0) * 100.0;
                format!("planning: {seconds} s, within {gap:.1} % so far")
            }
            _ => format!("planning: {seconds} s"),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_gap_is_told_once_there_is_one() {
            let status = |best, bound| Status {
                work: 0,
                best,
                bound,
            };
            let told = |s| message(Duration::from_secs(12), &s);
            assert_eq!(told(status(None, 5)), "planning: 12 s");
            assert_eq!(told(status(Some(7), 0)), "planning: 12 s");
            let gap = "planning: 12 s, within 40.0 % so far";
            assert_eq!(told(status(Some(7), 5)), gap);
        }

        #[test]
        fn a_limit_ends_a_search() {
            let status = Status {
                work: 0,
                best: None,
                bound: 0,
            };
            assert!(Clock::start(None, false).keep_going(&status));
            assert!(!Clock::start(Some(Duration::ZERO), false).keep_going(&status));
        }
    }
}
