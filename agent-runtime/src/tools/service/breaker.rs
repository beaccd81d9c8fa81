//! When a service that keeps failing is left alone. Pure.
//!
//! Closed, it counts failures in a row. Open, it lets nothing through until a pause is over. Then one call tries: if it
//! succeeds, all is as before; if it fails, a longer pause begins. Times are those since some fixed moment.

use std::time::Duration;

/// How many times its first length a pause becomes at most.
const LONGEST: u32 = 8;

/// Leaves a service alone after failures.
#[derive(Debug)]
pub(super) struct Breaker {
    failures: u32,
    pause: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, pause: Duration },
    Trying { pause: Duration },
}

/// As what a call was admitted. Its outcome counts as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As one of many.
    Usual,
    /// To find out whether the service is back.
    Trial,
}

/// What a call says of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) enum Health {
    /// It answers.
    Good,
    /// It does not.
    Failed,
    /// Nothing: the call was given up, or never made.
    Unknown,
}

/// The service is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resting {
    /// For so much longer, as far as is known.
    pub(super) remaining: Duration,
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        Self { failures, pause, state: State::Closed { failures: 0 } }
    }

    /// Lets a call through, or not.
    pub(super) fn admit(&mut self, now: Duration) -> Result<Turn, Resting> {
        match self.state {
            State::Closed { .. } => Ok(Turn::Usual),
            State::Open { until, pause } if now >= until => {
                self.state = State::Trying { pause };
                Ok(Turn::Trial)
            }
            State::Open { until, .. } => Err(Resting { remaining: until.saturating_sub(now) }),
            State::Trying { pause } => Err(Resting { remaining: pause }),
        }
    }

    /// Counts the outcome of a call that was admitted. Pauses are longer by up to a half, as the dice say, so that
    /// pods do not come back together.
    pub(super) fn record(&mut self, turn: Turn, health: Health, now: Duration, dice: u64) {
        self.state = match (self.state, turn, health) {
            (State::Closed { .. }, Turn::Usual, Health::Good) => State::Closed { failures: 0 },
            (State::Closed { failures }, Turn::Usual, Health::Failed) if failures + 1 >= self.failures => {
                open(now, self.pause, dice)
            }
            (State::Closed { failures }, Turn::Usual, Health::Failed) => State::Closed { failures: failures + 1 },
            (State::Trying { .. }, Turn::Trial, Health::Good) => State::Closed { failures: 0 },
            (State::Trying { pause }, Turn::Trial, Health::Failed) => {
                open(now, (2 * pause).min(LONGEST * self.pause), dice)
            }
            // Another call may try at once.
            (State::Trying { pause }, Turn::Trial, Health::Unknown) => State::Open { until: now, pause },
            // Calls from before the pause say nothing of the service now.
            (state, _, _) => state,
        };
    }
}

fn open(now: Duration, pause: Duration, dice: u64) -> State {
    let half = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX);
    State::Open { until: now + pause + Duration::from_micros(dice % half.saturating_add(1)), pause }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn resting(seconds: u64) -> Result<Turn, Resting> {
        Err(Resting { remaining: at(seconds) })
    }

    /// A breaker that has just opened, at second zero.
    fn open_breaker() -> Breaker {
        let mut breaker = Breaker::new(3, PAUSE);
        (0..3).for_each(|_| breaker.record(Turn::Usual, Health::Failed, at(0), 0));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_others_do_not() {
        let mut breaker = Breaker::new(3, PAUSE);
        for health in [Health::Failed, Health::Failed, Health::Good, Health::Failed, Health::Failed, Health::Unknown] {
            breaker.record(Turn::Usual, health, at(0), 0);
            assert_eq!(breaker.admit(at(0)), Ok(Turn::Usual));
        }
        breaker.record(Turn::Usual, Health::Failed, at(1), 0);
        assert_eq!(breaker.admit(at(4)), resting(7));
    }

    #[test]
    fn after_the_pause_one_call_tries_and_a_good_one_closes_it() {
        let mut breaker = open_breaker();
        assert_eq!(breaker.admit(at(9)), resting(1));
        assert_eq!(breaker.admit(at(10)), Ok(Turn::Trial));
        assert_eq!(breaker.admit(at(10)), resting(10), "one at a time");
        breaker.record(Turn::Usual, Health::Good, at(11), 0);
        breaker.record(Turn::Usual, Health::Failed, at(11), 0);
        assert_eq!(breaker.admit(at(11)), resting(10), "calls from before say nothing");
        breaker.record(Turn::Trial, Health::Good, at(12), 0);
        assert_eq!(breaker.admit(at(12)), Ok(Turn::Usual));
    }

    #[test]
    fn a_failed_trial_doubles_the_pause_up_to_eight_times() {
        let mut breaker = open_breaker();
        let mut now = at(0);
        for pause in [10, 20, 40, 80, 80] {
            assert_eq!(breaker.admit(now), resting(pause));
            now += at(pause);
            assert_eq!(breaker.admit(now), Ok(Turn::Trial));
            breaker.record(Turn::Trial, Health::Failed, now, 0);
        }
    }

    #[test]
    fn a_trial_that_was_given_up_leaves_the_next_call_to_try() {
        let mut breaker = open_breaker();
        assert_eq!(breaker.admit(at(10)), Ok(Turn::Trial));
        breaker.record(Turn::Trial, Health::Unknown, at(11), 0);
        assert_eq!(breaker.admit(at(11)), Ok(Turn::Trial));
    }

    proptest! {
        #[test]
        fn pauses_differ_by_up_to_a_half(dice: u64) {
            let mut breaker = Breaker::new(1, PAUSE);
            breaker.record(Turn::Usual, Health::Failed, at(0), dice);
            let Err(Resting { remaining }) = breaker.admit(at(0)) else { return Err(TestCaseError::fail("it is open")) };
            prop_assert!(PAUSE <= remaining && remaining <= PAUSE * 3 / 2);
        }
    }
}
