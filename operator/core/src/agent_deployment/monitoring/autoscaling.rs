//! How many pods the load needs. Pure.
//!
//! Only the number is decided here, and only written into the status: the next reconciliation gives it to the
//! Deployments ([`World::replicas`]), as it would give them `spec.serving.replicas`. The pods remember the load: they
//! keep their windows for an hour. The status adds only since when the number holds.
//!
//! There is a band between the loads that add and that remove pods, so that a steady load moves nothing. The number
//! that follows from a load is stable under the same load.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::agent_deployment::{Autoscaling, AutoscalingStatus, UnknownLoad};

use super::load::{Look, MILLIONTHS, ObservedLoad, Unknown};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::World,
    },
    plan::{AT_ONCE, Note},
    why::{Because, Needed, Scaling},
};

/// How often the load is read: no watch reports what pods count.
const LOOK: Duration = Duration::from_secs(15);
/// Share of the target from which on pods are added, in percent.
const FULL_PERCENT: u64 = 90;
/// Share of the target that the remaining pods may carry when pods are removed, in percent.
const ROOMY_PERCENT: u64 = 80;
/// How long the figures of the status stay while later ones change nothing else: every figure is a write.
const FIGURES_STAND: SignedDuration = SignedDuration::from_mins(5);
/// How long a reason and the needed number stay while the number of pods does.
const REASON_STANDS: SignedDuration = SignedDuration::from_mins(1);

/// The number of pods as the status has it; absent where an agent does not scale itself.
pub(in crate::agent_deployment) fn decide(world: &World) -> Planned<Option<AutoscalingStatus>> {
    let (Some(asked), Some(stable)) = (&world.spec.serving.autoscaling, world.stable()) else {
        return Parts::default().with(None);
    };
    let known = world.status.autoscaling.as_ref();
    let before = world.replicas();
    let canary = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.clone());
    let revisions: Vec<String> = std::iter::once(stable.to_owned()).chain(canary).collect();
    let unchanged = known.filter(|known| known.replicas == before && known.revisions == revisions);
    let since = unchanged.map_or_else(|| Time(world.now), |known| known.since.clone());
    let limit = revisions.iter().filter_map(|hash| world.revision(hash)).map(|kept| kept.plan.max_in_flight).min();
    let target = asked.target_requests_in_flight.or(limit);
    let situation = target.map(|target| Situation {
        asked,
        load: &world.load,
        now_seconds: u64::try_from(world.now.as_second()).unwrap_or(0),
        before,
        ready: world.serving.get(stable).map_or(0, |view| view.ready),
        target: positive(target),
        limit: limit.map_or(u64::MAX / MILLIONTHS, positive),
        settled: world.now.duration_since(since.0),
        is_rolling_out: revisions.len() > 1,
    });
    let scaling = situation.map_or_else(
        || nothing_known(before, (UnknownLoad::NoTarget, NO_TARGET.to_owned())),
        |situation| situation.answer(),
    );
    let next = AutoscalingStatus {
        replicas: scaling.pods,
        desired_replicas: scaling.load.as_ref().map(|load| load.pods),
        since: if scaling.pods == before { since } else { Time(world.now) },
        revisions,
        target_requests_in_flight: target,
        requests_in_flight: scaling.load.as_ref().map(|load| load.requests.clone()),
        requests_in_flight_thousandths: scaling.load.as_ref().map(|load| load.requests_thousandths),
        reason: scaling.reason().as_str().to_owned(),
        message: scaling.to_string(),
        unknown: unknown(&scaling.because),
        at: Time(world.now),
    };
    let recorded = known.filter(|known| stands(known, &next)).cloned().unwrap_or(next);
    let look = Parts::look_within(if scaling.pods == before { LOOK } else { AT_ONCE });
    look.and(Parts::of_notes(news(known, &scaling, &recorded))).with(Some(recorded))
}

/// What is known of the target where the plan that serves has no record.
const NO_TARGET: &str = "the record of the serving revision is lost, including its chosen level: set \
                         spec.serving.autoscaling.targetRequestsInFlight";

/// Announces a change of the number, and, once recorded, that more pods are needed than allowed.
fn news(known: Option<&AutoscalingStatus>, scaling: &Scaling, recorded: &AutoscalingStatus) -> Option<Note> {
    let reason = scaling.reason();
    let is_news = recorded.reason == reason.as_str() && known.is_none_or(|known| known.reason != recorded.reason);
    match &scaling.because {
        Because::More | Because::Fewer => Some(Note::normal(reason, scaling.to_string())),
        Because::Limit => is_news.then(|| Note::warning(reason, scaling.to_string())),
        Because::Fits | Because::NotForLong { .. } | Because::RollingOut | Because::Unknown { .. } => None,
    }
}

/// Why the load is not known, if it is not.
fn unknown(because: &Because) -> Option<UnknownLoad> {
    match because {
        Because::Unknown { cause, .. } => Some(*cause),
        Because::Fits
        | Because::More
        | Because::Fewer
        | Because::NotForLong { .. }
        | Because::RollingOut
        | Because::Limit => None,
    }
}

/// Whether the recorded status need not be written again.
fn stands(known: &AutoscalingStatus, next: &AutoscalingStatus) -> bool {
    let age = next.at.0.duration_since(known.at.0);
    let same = known.replicas == next.replicas
        && known.revisions == next.revisions
        && known.target_requests_in_flight == next.target_requests_in_flight;
    let says_the_same =
        known.reason == next.reason && known.desired_replicas == next.desired_replicas && known.unknown == next.unknown;
    same && age < if says_the_same { FIGURES_STAND } else { REASON_STANDS }
}

fn positive(number: i32) -> u64 {
    u64::try_from(number).unwrap_or(0).max(1)
}

/// What the number of pods follows from.
struct Situation<'a> {
    asked: &'a Autoscaling,
    load: &'a ObservedLoad,
    now_seconds: u64,
    /// Number of pods so far.
    before: i32,
    /// Pods of the revision that serves that are ready.
    ready: i32,
    /// Model requests in flight that a pod is to carry at most.
    target: u64,
    /// Runs that a pod admits.
    limit: u64,
    /// How long the same number of pods and the same revisions have served.
    settled: SignedDuration,
    /// Whether two revisions share the traffic, or are about to.
    is_rolling_out: bool,
}

impl Situation<'_> {
    fn answer(&self) -> Scaling {
        let look = match self.load.present(self.now_seconds) {
            Ok(look) => look,
            Err(unknown) => return nothing_known(self.before, problem(unknown)),
        };
        let (before, most, least) = (self.before, self.asked.max_replicas, self.asked.min_replicas);
        let needed = self.needed(&look);
        if needed > before {
            let pods = needed.min(most).max(before);
            let because = if pods > before { Because::More } else { Because::Limit };
            return self.scaling(&look, needed, (pods, because));
        }
        let enough = self.enough(&look);
        if enough >= before || before <= least {
            return self.scaling(&look, enough.min(before), (before, Because::Fits));
        }
        if self.is_rolling_out {
            return self.scaling(&look, enough, (before, Because::RollingOut));
        }
        let enough_for_long = self.enough_for_long().max(least);
        if enough_for_long >= before || self.settled < self.delay() {
            let delay = self.asked.scale_down_delay.to_string();
            return self.scaling(&look, enough, (before, Because::NotForLong { delay }));
        }
        self.scaling(&look, enough, (enough_for_long, Because::Fewer))
    }

    fn scaling(&self, look: &Look, needed: i32, (pods, because): (i32, Because)) -> Scaling {
        let load = Needed {
            requests: format!("{:.1}", look.requests as f64 / MILLIONTHS as f64),
            requests_thousandths: i64::try_from(look.requests / (MILLIONTHS / 1_000)).unwrap_or(i64::MAX),
            target: i32::try_from(self.target).unwrap_or(i32::MAX),
            refused: look.refused,
            pods: needed,
        };
        Scaling { before: self.before, pods, load: Some(load), because }
    }

    fn delay(&self) -> SignedDuration {
        let microseconds = i64::try_from(self.asked.scale_down_delay.microseconds()).unwrap_or(i64::MAX);
        SignedDuration::from_micros(microseconds)
    }

    /// Pods that the load needs. Those that report nothing carry nothing.
    fn needed(&self, look: &Look) -> i32 {
        let carried = look.with_refused(look.requests);
        // Refused runs mean full pods, even if tools take a part of every run and the target is never reached. If runs
        // mostly wait for tools, more pods would only send more runs to the same tools.
        let is_full = look.refused > 0 && look.is_busy_with_the_model();
        let of_full_pods = u64::try_from(look.pods).unwrap_or(0) * self.target * MILLIONTHS;
        let full = if is_full { look.with_refused(of_full_pods) } else { 0 };
        pods(carried.max(full), self.target, FULL_PERCENT)
    }

    /// Pods that would be enough. Pods that report nothing count as full. The remaining pods must admit all runs in
    /// flight, whatever these wait for.
    fn enough(&self, look: &Look) -> i32 {
        let missing = u64::try_from(self.before - look.pods.min(self.ready)).unwrap_or(0);
        let requests = look.with_refused(look.requests) + missing * self.target * MILLIONTHS;
        let by_requests = pods(requests, self.target, ROOMY_PERCENT);
        let by_runs = pods(look.runs, self.limit, ROOMY_PERCENT);
        by_requests.max(by_runs).max(self.needed(look)).max(1)
    }

    /// Pods that would have been enough at all times within the delay.
    fn enough_for_long(&self) -> i32 {
        let past = self.load.past(self.now_seconds, self.asked.scale_down_delay.seconds_rounded_up());
        past.map(|look| look.map_or(self.before, |look| self.enough(&look))).max().unwrap_or(self.before)
    }
}

/// Pods for so many millionths in flight, where each carries such a share of what it can.
fn pods(in_flight: u64, each: u64, percent: u64) -> i32 {
    let needed = (u128::from(in_flight) * 100).div_ceil(u128::from(each) * u128::from(percent * MILLIONTHS));
    i32::try_from(needed).unwrap_or(i32::MAX)
}

fn nothing_known(before: i32, (cause, problem): (UnknownLoad, String)) -> Scaling {
    Scaling { before, pods: before, load: None, because: Because::Unknown { cause, problem } }
}

/// Why nothing is known of the load, with the remedy.
fn problem(unknown: Unknown) -> (UnknownLoad, String) {
    match unknown {
        Unknown::Silent { asked: 0 } => (UnknownLoad::NoPods, "no pod runs yet".to_owned()),
        Unknown::Silent { asked } => {
            let problem = format!(
                "none of {asked} pods reports its counts on port 9464: check their logs, and any NetworkPolicy between \
                 them and the operator"
            );
            (UnknownLoad::Silent, problem)
        }
        Unknown::TooNew => (UnknownLoad::TooNew, "no pod has counted for a full ten seconds yet".to_owned()),
        Unknown::NotCounted => {
            let problem = "the serving revision runs an agent runtime that does not count model requests: the next \
                           change of the plan updates it";
            (UnknownLoad::NotCounted, problem.to_owned())
        }
    }
}
