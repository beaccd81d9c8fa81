//! Retries and outboxes, told as stories and as properties. Time is the test's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::{retry::back_off, *};
use crate::notifications::events::{Announcement, Happening, Role, Severity, Subject, Topic};

const SECOND: Duration = Duration::from_secs(1);

fn announcement(name: &str, topic: Topic, happening: Happening) -> Arc<Announcement> {
    Arc::new(Announcement {
        subject: Subject { namespace: "team".to_owned(), name: name.to_owned(), uid: format!("uid-of-{name}") },
        topic,
        happening,
        fingerprint: String::new(),
        severity: Severity::Info,
        message: "something".to_owned(),
        generation: 1,
        plan: None,
        at: Timestamp::UNIX_EPOCH,
        receivers: vec!["team".to_owned()],
    })
}

fn tail(happening: Happening) -> Arc<Announcement> {
    announcement("support", Topic::Objective("tail".to_owned()), happening)
}

fn with_fingerprint(announcement: &Announcement, fingerprint: &str) -> Arc<Announcement> {
    Arc::new(Announcement { fingerprint: fingerprint.to_owned(), ..announcement.clone() })
}

/// An outbox with a clock.
struct Harness {
    outbox: Outbox,
    now: Instant,
}

impl Harness {
    fn new() -> Self {
        Self::with(Policy::default())
    }

    fn with(policy: Policy) -> Self {
        Self { outbox: Outbox::new(policy), now: Instant::now() }
    }

    fn offer(&mut self, announcement: &Arc<Announcement>) -> Offer {
        self.outbox.offer(announcement.clone(), self.now)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The next attempt, which is answered so; nothing if none is due.
    fn attempt(&mut self, answer: &Answer) -> Option<(Happening, Settled)> {
        match self.outbox.next(self.now) {
            Next::Send(delivery) => Some((delivery.announcement.happening, self.outbox.settle(answer, self.now, 0.5))),
            Next::Wait(_) | Next::Idle => None,
        }
    }

    /// Everything that is delivered within a time, with the second in which it was.
    fn delivered_within(&mut self, time: Duration) -> Vec<(u64, Happening)> {
        let (start, mut delivered) = (self.now, Vec::new());
        while self.now <= start + time {
            match self.outbox.next(self.now) {
                Next::Send(delivery) => {
                    delivered.push(((self.now - start).as_secs(), delivery.announcement.happening));
                    self.outbox.settle(&Answer::Delivered, self.now, 0.5);
                }
                Next::Wait(pause) if self.now + pause <= start + time => self.now += pause,
                Next::Wait(_) | Next::Idle => break,
            }
        }
        self.now = start + time;
        delivered
    }
}

fn later(retry_after: Option<u64>) -> Answer {
    Answer::Later { reason: "status 503".to_owned(), retry_after: retry_after.map(Duration::from_secs) }
}

#[rstest]
#[case(200, None, Answer::Delivered)]
#[case(202, None, Answer::Delivered)]
#[case(429, Some("30"), Answer::Later { reason: "status 429".to_owned(), retry_after: Some(Duration::from_secs(30)) })]
#[case(503, Some("Sun, 06 Nov 1994 08:49:37 GMT"), Answer::Later { reason: "status 503".to_owned(), retry_after: Some(Duration::from_secs(10)) })]
#[case(503, Some("Sun, 06 Nov 1994 08:49:00 GMT"), Answer::Later { reason: "status 503".to_owned(), retry_after: Some(Duration::ZERO) })]
#[case(500, Some("soon"), Answer::Later { reason: "status 500".to_owned(), retry_after: None })]
#[case(408, None, Answer::Later { reason: "status 408".to_owned(), retry_after: None })]
#[case(302, None, Answer::Refused { reason: "status 302".to_owned() })]
#[case(404, Some("30"), Answer::Refused { reason: "status 404".to_owned() })]
fn a_status_says_whether_to_try_again(
    #[case] status: u16,
    #[case] retry_after: Option<&str>,
    #[case] expected: Answer,
) {
    let now: Timestamp = "1994-11-06T08:49:27Z".parse().expect("a time");
    assert_eq!(answer(status, retry_after, now), expected);
}

#[test]
fn the_same_happening_is_told_once_within_the_quiet_time() {
    let mut harness = Harness::new();
    let missed = tail(Happening::ObjectiveMissed);
    assert_eq!(harness.offer(&missed).offered, Offered::Queued);
    assert_eq!(harness.offer(&missed).offered, Offered::Duplicate, "while it waits");
    assert_eq!(harness.delivered_within(SECOND), [(0, Happening::ObjectiveMissed)]);
    assert_eq!(harness.offer(&missed).offered, Offered::Duplicate, "after it was told");
    let others = [
        announcement("sales", missed.topic.clone(), missed.happening),
        announcement("support", Topic::Objective("median".to_owned()), missed.happening),
    ];
    assert!(
        others.iter().all(|other| harness.offer(other).offered == Offered::Queued),
        "another agent, another objective"
    );
    harness.pass(Duration::from_mins(10));
    assert_eq!(harness.offer(&missed).offered, Offered::Queued);
}

#[test]
fn another_reason_for_a_problem_is_told_at_once() {
    let mut harness = Harness::new();
    let problem = announcement("support", Topic::Problem, Happening::Stalled);
    harness.offer(&with_fingerprint(&problem, "JobFailed"));
    harness.offer(&with_fingerprint(&problem, "NoEngine"));
    assert_eq!(harness.delivered_within(Duration::from_secs(5)), [(0, Happening::Stalled), (1, Happening::Stalled)]);
}

#[test]
fn a_recovery_is_told_once_it_has_lasted_and_what_comes_and_goes_is_told_once() {
    let mut harness = Harness::new();
    let (missed, met) = (tail(Happening::ObjectiveMissed), tail(Happening::ObjectiveMet));
    harness.offer(&missed);
    assert_eq!(harness.delivered_within(Duration::from_secs(60)), [(0, Happening::ObjectiveMissed)]);
    for _ in 0..5 {
        harness.offer(&met);
        assert_eq!(harness.delivered_within(Duration::from_secs(30)), []);
        let back = harness.offer(&missed);
        assert_eq!((back.offered, back.took_back), (Offered::Duplicate, true));
        assert_eq!(harness.delivered_within(Duration::from_secs(30)), []);
    }
    harness.offer(&met);
    assert_eq!(
        harness.delivered_within(Duration::from_mins(10)),
        [(240, Happening::ObjectiveMet)],
        "10 min after the problem"
    );
    harness.offer(&missed);
    assert_eq!(harness.delivered_within(SECOND), [(0, Happening::ObjectiveMissed)], "a problem never waits");
}

#[test]
fn a_recovery_that_the_operator_has_no_memory_of_is_told_at_once() {
    let mut harness = Harness::new();
    harness.offer(&tail(Happening::ObjectiveMet));
    assert_eq!(harness.delivered_within(SECOND), [(0, Happening::ObjectiveMet)]);
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is_for_everything() {
    let mut harness = Harness::new();
    harness.offer(&announcement("support", Topic::Problem, Happening::Stalled));
    harness.offer(&announcement("sales", Topic::Problem, Happening::Stalled));
    let (_, settled) = harness.attempt(&later(Some(90))).expect("the first is due");
    assert_eq!(settled, Settled::Again { after: Duration::from_secs(90) });
    harness.pass(Duration::from_secs(89));
    assert_eq!(harness.attempt(&Answer::Delivered), None);
    harness.pass(SECOND);
    assert!(harness.attempt(&Answer::Delivered).is_some());
}

#[test]
fn a_receiver_that_is_never_there_is_given_up_after_an_hour() {
    let mut harness = Harness::new();
    harness.offer(&announcement("support", Topic::Problem, Happening::Stalled));
    let (mut waits, start) = (Vec::new(), harness.now);
    while let Some((_, Settled::Again { after })) = harness.attempt(&later(None)) {
        waits.push(after.as_secs_f64());
        harness.pass(after.max(SECOND));
    }
    assert_eq!(waits[..9], [1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0, 225.0]);
    assert!((harness.now - start) <= Duration::from_hours(1) && waits.len() == 22, "{} attempts", waits.len());
    assert!(harness.outbox.is_empty());
}

#[test]
fn a_refusal_is_final_and_the_receiver_may_be_told_again() {
    let mut harness = Harness::new();
    let stalled = announcement("support", Topic::Problem, Happening::Stalled);
    harness.offer(&stalled);
    let refused = Answer::Refused { reason: "status 404".to_owned() };
    assert_eq!(harness.attempt(&refused), Some((Happening::Stalled, Settled::GivenUp)));
    assert_eq!(harness.offer(&stalled).offered, Offered::Queued, "it was never told");
}

#[test]
fn one_that_is_tried_again_delays_no_other_thread_and_is_not_overtaken_in_its_own() {
    let mut harness = Harness::new();
    harness.offer(&announcement("support", Topic::Problem, Happening::Stalled));
    harness.offer(&with_fingerprint(&announcement("support", Topic::Problem, Happening::RolledBack), "next"));
    harness.offer(&announcement("sales", Topic::Problem, Happening::ProfilingFailed));
    assert!(harness.attempt(&later(None)).is_some());
    let order: Vec<Happening> = harness.delivered_within(Duration::from_mins(1)).into_iter().map(|(_, h)| h).collect();
    assert_eq!(order, [Happening::ProfilingFailed, Happening::Stalled, Happening::RolledBack]);
}

#[test]
fn the_oldest_makes_room_but_never_what_is_on_its_way() {
    let mut harness = Harness::with(Policy { capacity: 2, ..Policy::default() });
    let [a, b, c] = ["a", "b", "c"].map(|name| announcement(name, Topic::Problem, Happening::Stalled));
    harness.offer(&a);
    let Next::Send(_) = harness.outbox.next(harness.now) else { unreachable!("it is due") };
    assert_eq!(harness.offer(&b).dropped, None);
    assert_eq!(harness.offer(&c).dropped, Some(b.clone()), "a is on its way");
    assert_eq!(harness.outbox.settle(&Answer::Delivered, harness.now, 0.0), Settled::Delivered);
    assert_eq!(harness.offer(&b).offered, Offered::Queued, "nobody was told of b");
}

#[test]
fn at_the_end_everything_is_tried_once_whatever_it_waited_for() {
    let mut harness = Harness::new();
    harness.offer(&tail(Happening::ObjectiveMissed));
    harness.delivered_within(SECOND);
    harness.offer(&tail(Happening::ObjectiveMet));
    harness.offer(&announcement("support", Topic::Problem, Happening::Stalled));
    let mut told = Vec::new();
    loop {
        harness.outbox.hurry(harness.now);
        let Next::Send(delivery) = harness.outbox.next(harness.now) else { break };
        harness.outbox.settle(&later(Some(60)), harness.now, 1.0);
        told.push(delivery.announcement.happening);
    }
    assert_eq!(told, [Happening::ObjectiveMet, Happening::Stalled]);
    assert!(harness.outbox.is_empty());
}

/// What happens to an outbox.
#[derive(Debug, Clone)]
enum Event {
    Offer { agent: u8, is_missed: bool },
    Pass { seconds: u64 },
    Attempt { answer: u8, dice: f64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0u8..3, any::<bool>()).prop_map(|(agent, is_missed)| Event::Offer { agent, is_missed }),
        (0u64..400).prop_map(|seconds| Event::Pass { seconds }),
        (0u8..4, 0.0..=1.0f64).prop_map(|(answer, dice)| Event::Attempt { answer, dice }),
    ];
    proptest::collection::vec(event, 0..120)
}

fn answered(which: u8) -> Answer {
    match which {
        0 => Answer::Refused { reason: "status 400".to_owned() },
        1 => later(None),
        2 => later(Some(20)),
        _ => Answer::Delivered,
    }
}

fn of_agent(agent: u8, is_missed: bool) -> Arc<Announcement> {
    let happening = if is_missed { Happening::ObjectiveMissed } else { Happening::ObjectiveMet };
    announcement(&format!("agent-{agent}"), Topic::Objective("tail".to_owned()), happening)
}

proptest! {
    #[test]
    fn the_wait_after_a_failure_grows_within_its_bounds(failures in 1u32..200, dice in 0.0..=1.0f64) {
        let policy = Policy::default();
        let wait = back_off(&policy, failures, dice);
        prop_assert!(wait >= policy.first_back_off / 2 && wait <= policy.longest_back_off);
        prop_assert!(back_off(&policy, failures + 1, dice) >= wait);
        prop_assert!(back_off(&policy, failures, 1.0) >= wait);
    }

    #[test]
    fn an_outbox_keeps_its_bounds_and_its_pauses(events in events()) {
        let policy = Policy { capacity: 3, ..Policy::default() };
        let mut harness = Harness::with(policy.clone());
        let mut left_alone_until = harness.now;
        for event in events {
            match event {
                Event::Offer { agent, is_missed } => drop(harness.offer(&of_agent(agent, is_missed))),
                Event::Pass { seconds } => harness.pass(Duration::from_secs(seconds)),
                Event::Attempt { answer, dice } => {
                    if let Next::Send(_) = harness.outbox.next(harness.now) {
                        prop_assert!(harness.now >= left_alone_until, "an attempt before its time");
                        let answer = answered(answer);
                        harness.outbox.settle(&answer, harness.now, dice);
                        let asked = match answer { Answer::Later { retry_after: Some(asked), .. } => asked, _ => SECOND };
                        left_alone_until = harness.now + asked;
                    }
                }
            }
            prop_assert!(harness.outbox.len() <= policy.capacity);
        }
        // Whatever came before, an outbox that is delivered from comes to rest.
        harness.delivered_within(Duration::from_hours(24));
        prop_assert!(harness.outbox.is_empty());
    }

    #[test]
    fn what_a_receiver_was_told_last_is_what_is_so(events in events()) {
        let mut harness = Harness::with(Policy { give_up_after: Duration::from_hours(1000), ..Policy::default() });
        let mut is_so = [None; 3];
        let mut told = [None; 3];
        for event in events {
            match event {
                // Planners tell transitions, never twice the same.
                Event::Offer { agent, is_missed } if is_so[usize::from(agent)].unwrap_or(false) != is_missed => {
                    harness.offer(&of_agent(agent, is_missed));
                    is_so[usize::from(agent)] = Some(is_missed);
                }
                Event::Offer { .. } => {}
                Event::Pass { seconds } => harness.pass(Duration::from_secs(seconds)),
                Event::Attempt { answer, dice } => {
                    if let Next::Send(delivery) = harness.outbox.next(harness.now) {
                        // Some attempts fail for a while, none for ever.
                        let answer = if answer == 0 { later(Some(20)) } else { Answer::Delivered };
                        let settled = harness.outbox.settle(&answer, harness.now, dice);
                        if settled == Settled::Delivered {
                            note(&delivery, &mut told);
                        }
                    }
                }
            }
        }
        loop {
            match harness.outbox.next(harness.now) {
                Next::Send(delivery) => {
                    harness.outbox.settle(&Answer::Delivered, harness.now, 0.0);
                    note(&delivery, &mut told);
                }
                Next::Wait(pause) => harness.pass(pause),
                Next::Idle => break,
            }
        }
        prop_assert_eq!(told.map(|t| t.unwrap_or(false)), is_so.map(|t| t.unwrap_or(false)));
    }
}

/// Takes a delivery in; an agent is never told the same twice in a row.
fn note(delivery: &Delivery, told: &mut [Option<bool>; 3]) {
    let agent: usize = delivery.announcement.subject.name["agent-".len()..].parse().expect("a number");
    let is_missed = delivery.announcement.happening.role() == Role::Opens;
    assert_ne!(told[agent], Some(is_missed), "told twice in a row");
    told[agent] = Some(is_missed);
}
