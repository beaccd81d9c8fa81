//! Judges a canary by what its pods and those of stable, or of a baseline that stands for it, counted. Pure: the
//! statistics are those of slipway-analysis.

use std::{cell::LazyCell, ops::Deref};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::judge::{
    Arm, Blame, Change, Config, Expectation, Judge, Judgement, Observation, Reference, StateError, Step, Suspect,
    Verdict, Window,
};
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{LogEvidence, RolloutStatus, TrafficType},
};
use slipway_selection::cost::dollars;
use slipway_vocabulary::evidence::{
    Evidence, Histogram, Metric, MetricWindow, Unit, WINDOW_SECONDS, window_end, window_id,
};

use super::{
    baseline,
    nodes::LeftOut,
    prediction::{self, TokenCosts},
    revision::{RevisionPlan, Served},
    steps::PlannedStep,
    windows::{GRACE_SECONDS, MENDED_WINDOWS, PATIENCE_WINDOWS, UNASKED_WINDOWS, before_weight, judged_after},
};
use crate::agent_deployment::{
    judge_config::judge_config,
    world::{PodEvidence, World},
};

/// Seconds after a change of weights whose windows are left out: gateways take the new weights in within that time.
const SETTLE_SECONDS: u64 = 5;
/// Seconds after which the figures of the judge are written even though nothing has changed.
const WRITE_EVERY_SECONDS: i64 = 60;

/// Why a canary is rolled back whose tokens cost too much by themselves.
const TOO_DEAR: &str = "CostPerRun";

/// What is judged.
pub(super) struct Case<'a> {
    pub(super) world: &'a World,
    pub(super) rollout: &'a RolloutStatus,
    pub(super) schedule: &'a [PlannedStep],
    pub(super) stable: &'a str,
    pub(super) canary: &'a str,
    pub(super) plan: &'a RevisionPlan,
    /// Whether the canary would be given more traffic now; if not, later windows are read all the same.
    pub(super) may_advance: bool,
}

/// The judge's outcome.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// The rollout with the judge's figures, where it is time to write them.
    pub(super) rollout: RolloutStatus,
    /// What is to be done.
    pub(super) verdict: Verdict,
    /// Why, in words, with who is to blame.
    pub(super) reason: String,
}

impl Case<'_> {
    /// Reads the windows that were not read before, and judges.
    pub(super) fn judge(&self) -> Judged {
        if let Some(words) = self.is_too_dear() {
            return self.rolled_back_for_its_price(words);
        }
        let config = self.config();
        let kept = self.rollout.judge_state.as_deref().map(|state| Judge::resume(config.clone(), state)).transpose();
        let (mut judge, lost) = match kept {
            Ok(judge) => (judge.unwrap_or_else(|| Judge::new(config)), None),
            Err(error) if judged_after(self.rollout, self.world.now) > before_weight(self.rollout) => {
                return self.begun_with_the_next_look(&error);
            }
            Err(error) => (Judge::new(config), Some(error)),
        };
        let latest = LazyCell::new(|| self.latest_windows());
        let is_split_wrong = |judge: &Judge| self.is_split_wrong(judge, &latest);
        let (mut last, mut left_out) = (None, LeftOut::default());
        for (window, without) in self.windows(judge.consumed_to()) {
            left_out = without;
            // What the node has done is not what the revision does. Nothing is decided by it, not even by waiting.
            if left_out.leaves_an_arm_empty() {
                continue;
            }
            if !self.may_advance || is_split_wrong(&judge) {
                judge.hold();
            }
            let judgement = judge.consume(&window);
            let ends = judgement.as_ref().is_some_and(|judgement| match judgement.verdict {
                Verdict::Hold => false,
                // Windows after it belong to the next share, if there is to be one.
                Verdict::Advance | Verdict::Promote => self.may_advance && !is_split_wrong(&judge),
                Verdict::Rollback => true,
            });
            last = judgement.or(last);
            if ends {
                break;
            }
        }
        if left_out.leaves_an_arm_empty() {
            return self.held_by_nodes(&judge, &left_out);
        }
        let note = lost.and_then(|error| started_anew(&error));
        let without = (!left_out.is_nobody()).then(|| format!("left out: {left_out}"));
        self.conclude(&judge, last, is_split_wrong(&judge), [note, without])
    }

    /// No pod is left on one side whose node is not at fault.
    fn held_by_nodes(&self, judge: &Judge, left_out: &LeftOut) -> Judged {
        let code = Reason::NodeAtFault.as_str();
        let text = format!("{code}: {left_out}; the node is to blame for what these pods do, not the revision");
        let mut rollout = self.rollout.clone();
        if self.is_news(Verdict::Hold, code) {
            write(&mut rollout, judge, self.reference(), (Verdict::Hold, code, text.clone()));
            rollout.judged_at = Some(Time(self.world.now));
        }
        Judged { rollout, verdict: Verdict::Hold, reason: text }
    }

    /// Says so where a token of the canary costs more by itself than a run may: no traffic is needed to see it.
    fn is_too_dear(&self) -> Option<String> {
        let most = self.world.spec.rollout.judge.max_cost_increase()?;
        let stable = self.world.revision(self.stable)?;
        let TokenCosts { before, after } = prediction::token_costs(self.world, &stable.plan, self.plan)?;
        let ratio = after as f64 / before as f64;
        (ratio > 1.0 + most).then(|| {
            format!(
                "{TOO_DEAR}: a million output tokens are predicted to cost {} instead of {}, {:.0} % more, and \
                 rollout.judge.costs allows {:.0} %",
                dollars(after),
                dollars(before),
                100.0 * (ratio - 1.0),
                100.0 * most
            )
        })
    }

    fn rolled_back_for_its_price(&self, words: String) -> Judged {
        let mut rollout = self.rollout.clone();
        rollout.verdict = Some(Verdict::Rollback);
        rollout.reason = Some(TOO_DEAR.to_owned());
        rollout.message = Some(words.chars().take(512).collect());
        rollout.judged_at = Some(Time(self.world.now));
        Judged { rollout, verdict: Verdict::Rollback, reason: words }
    }

    /// The memory cannot be read, and of what was read before it nothing was asked for: without a memory, the next look
    /// asks for all windows at the present weight.
    fn begun_with_the_next_look(&self, error: &StateError) -> Judged {
        let mut rollout = self.rollout.clone();
        rollout.judge_state = None;
        rollout.message = started_anew(error).or(rollout.message);
        let reason = rollout.message.clone().unwrap_or_default();
        Judged { rollout, verdict: Verdict::Hold, reason }
    }

    /// What a token of the canary costs, as a multiple of stable's; as much, where profiling says nothing.
    fn token_cost_ratio(&self, stable: Option<&RevisionPlan>) -> f64 {
        let costs = stable.and_then(|stable| prediction::token_costs(self.world, stable, self.plan));
        costs.map_or(1.0, |TokenCosts { before, after }| after as f64 / before as f64)
    }

    fn conclude(
        &self,
        judge: &Judge,
        last: Option<Judgement>,
        is_split_wrong: bool,
        [note, without]: [Option<String>; 2],
    ) -> Judged {
        let (verdict, reason, code) = match (&last, judge.decided()) {
            (Some(judgement), _) => (judgement.verdict, judgement.reason.to_string(), judgement.reason.code()),
            // Decided before, and written down then.
            (None, Some((verdict, _))) => (verdict, self.rollout.message.clone().unwrap_or_default(), ""),
            (None, None) => (Verdict::Hold, self.rollout.message.clone().unwrap_or_default(), ""),
        };
        let is_held = is_split_wrong && verdict != Verdict::Rollback;
        let (verdict, reason, code) = if is_held { split_mismatch() } else { (verdict, reason, code) };
        let blame = judge.blame();
        let reason = match verdict {
            Verdict::Rollback if !blame.is_empty() && last.is_some() => format!("{reason}; {}", accused(&blame)),
            Verdict::Rollback | Verdict::Hold | Verdict::Advance | Verdict::Promote => reason,
        };
        let mut judged = Judged { rollout: self.rollout.clone(), verdict, reason };
        if last.is_some() && (note.is_some() || self.is_news(verdict, code)) {
            let refused = if code == Reason::EvidenceUnreachable.as_str() { self.refused_evidence() } else { None };
            let parts = [Some(judged.reason.clone()), refused, note, without];
            let text: Vec<String> = parts.into_iter().flatten().collect();
            let text = text.join("; ");
            write(&mut judged.rollout, judge, self.reference(), (verdict, code, text));
            judged.rollout.judged_at = Some(Time(self.world.now));
        }
        judged
    }

    /// Pods of the canary may answer, and with what nobody can rely on: then no network is to blame.
    fn refused_evidence(&self) -> Option<String> {
        let refused =
            |pod: &PodEvidence| Some(format!("what pod {} says is refused: {}", pod.pod, pod.refused.as_ref()?));
        self.pods(self.canary).iter().find_map(refused)
    }

    /// Whether new sessions do not arrive in the declared shares. Without a gateway there are no declared shares. A
    /// split that is right in the latest windows was fixed.
    fn is_split_wrong(&self, judge: &Judge, latest: &impl Deref<Target = Vec<Window>>) -> bool {
        let is_declared = self.world.spec.rollout.traffic.r#type == TrafficType::GatewayAPI;
        is_declared && judge.split_mismatch().1 && !judge.is_split_kept(latest)
    }

    /// What it is compared with at the steps to come.
    fn reference(&self) -> Reference {
        if baseline::is_asked_for(self.world) { Reference::Baseline } else { Reference::Rest }
    }

    fn is_news(&self, verdict: Verdict, code: &str) -> bool {
        let same = self.rollout.verdict == Some(verdict) && self.rollout.reason.as_deref() == Some(code);
        let written = self.rollout.judged_at.as_ref().map(|time| self.world.now.duration_since(time.0).as_secs());
        // A passed step must be in the status: else the next operator would judge it again.
        let is_passed = self.may_advance && verdict == Verdict::Advance;
        !same || is_passed || written.is_none_or(|seconds| seconds >= WRITE_EVERY_SECONDS)
    }

    fn config(&self) -> Config {
        let stable = self.world.revision(self.stable).map(|revision| &revision.plan);
        let steps = self.schedule.iter().map(|step| Step {
            weight_percent: step.share,
            min_soak_seconds: step.min_soak_seconds,
            max_soak_seconds: step.max_soak_seconds,
        });
        Config {
            predictions: stable.map(|stable| prediction::ratios(self.world, stable, self.plan)).unwrap_or_default(),
            change: stable.map_or(Change::Any, |stable| change(stable, self.plan)),
            // Where no stable pod is left there is nothing to compare with.
            is_first_revision: self.schedule.iter().all(|step| step.weight == 100),
            ..judge_config(&self.world.spec, steps.collect(), self.token_cost_ratio(stable))
        }
    }

    /// The finished windows that are to be read, all at the present weight.
    fn windows(&self, consumed_to: u64) -> Vec<(Window, LeftOut)> {
        self.windows_from(|_| consumed_to / WINDOW_SECONDS)
    }

    /// The latest finished windows at the present weight, read or not.
    fn latest_windows(&self) -> Vec<Window> {
        self.windows_from(|end| end.saturating_sub(MENDED_WINDOWS)).into_iter().map(|(window, _)| window).collect()
    }

    fn windows_from(&self, first: impl Fn(u64) -> u64) -> Vec<(Window, LeftOut)> {
        let Some(since) = &self.rollout.weight_since else { return Vec::new() };
        let seconds = |time: Timestamp| u64::try_from(time.as_second()).unwrap_or(0);
        let settled = (seconds(since.0) + SETTLE_SECONDS).div_ceil(WINDOW_SECONDS);
        let finished = window_id(seconds(self.world.now).saturating_sub(GRACE_SECONDS));
        let reference = self.rollout.compared_baseline().map_or(self.stable, |of| of.revision.as_str());
        let arms = [(Arm::Stable, self.pods(reference)), (Arm::Canary, self.pods(self.canary))];
        let counted = arms.iter().flat_map(|(_, pods)| *pods).map(|pod| counted_to(pod).unwrap_or(0)).min();
        let were_asked = arms.iter().flat_map(|(_, pods)| *pods).all(|pod| pod.was_asked);
        let patience = if were_asked { PATIENCE_WINDOWS } else { UNASKED_WINDOWS };
        // A window is read once. Read before a late clock has ended it, it would be lost for that pod.
        let end = counted.unwrap_or(finished).clamp(finished.saturating_sub(patience), finished);
        (settled.max(first(end))..end).map(|id| self.window(id, &arms)).collect()
    }

    fn pods(&self, revision: &str) -> &[PodEvidence] {
        self.world.evidence.get(revision).map(Vec::as_slice).unwrap_or_default()
    }

    fn window(&self, id: u64, arms: &[(Arm, &[PodEvidence])]) -> (Window, LeftOut) {
        let planned = self.schedule.iter().find(|step| Some(step.weight) == self.rollout.weight).map(|step| step.share);
        let weight_percent = planned.or(self.rollout.weight.map(f64::from));
        let reference_percent = self.rollout.compared_baseline().map(|of| f64::from(of.weight));
        let mut window = Window { end_seconds: window_end(id), weight_percent, reference_percent, ..Window::default() };
        let left_out = LeftOut::of(id, arms);
        let without = left_out.names();
        // Sessions of a pod that does not answer are counted by nobody, nor are those that a full pod refuses: without
        // them the split would look wrong.
        let counts_its_sessions =
            |pod: &PodEvidence| pod.evidence.as_ref().is_some_and(|evidence| !has_refused_runs(evidence, id));
        let is_split_known = without.is_empty() && arms.iter().flat_map(|(_, pods)| *pods).all(counts_its_sessions);
        let sessions = |metric: &MetricWindow| if is_split_known { metric.new_sessions } else { 0 };
        let is_compared = arms.iter().all(|(_, pods)| has_time_to_first_token(pods));
        for (arm, pod) in arms.iter().flat_map(|(arm, pods)| pods.iter().map(move |pod| (*arm, pod))) {
            if pod.is_leaving {
                window.ended_pods.insert(pod.pod.clone());
            }
            let Some(evidence) = &pod.evidence else { continue };
            // A restarted container counts from zero: the judge sees another pod.
            let name = format!("{}@{}", evidence.pod, evidence.started_at);
            let Ok(place) = evidence.windows.binary_search_by_key(&id, |window| window.id) else { continue };
            let counted = &evidence.windows[place];
            let counts = |metric: &&MetricWindow| is_compared || metric.metric != Metric::TimeToFirstToken;
            let observation = |metric: &MetricWindow| Observation {
                new_sessions: sessions(metric),
                ..Observation::from_evidence(arm, &name, metric)
            };
            if counted.metrics.is_empty() || without.contains(pod.pod.as_str()) {
                window.observations.push(observation(&idle()));
                continue;
            }
            window.observations.extend(counted.metrics.iter().filter(counts).map(observation));
        }
        (window, left_out)
    }
}

/// Whether the pods of one side count what users wait for the first token. A revision keeps its runtime, and an earlier
/// one does not count it: errors of the other side alone would look like harm.
fn has_time_to_first_token(pods: &[PodEvidence]) -> bool {
    let mut answered = pods.iter().filter_map(|pod| pod.evidence.as_ref()).peekable();
    (pods.is_empty() || answered.peek().is_some()) && answered.all(Evidence::has_time_to_first_token)
}

/// Whether a pod refused runs in a window, because all its places were taken.
fn has_refused_runs(evidence: &Evidence, id: u64) -> bool {
    let place = evidence.windows.binary_search_by_key(&id, |window| window.id);
    let metrics = place.map_or(&[][..], |place| &evidence.windows[place].metrics);
    metrics.iter().any(|metric| metric.metric == Metric::Shed && metric.count > 0)
}

/// The window that a pod will end next, by its own clock; none where it does not answer. A pod that has just started
/// has nothing to wait for.
fn counted_to(pod: &PodEvidence) -> Option<u64> {
    let evidence = pod.evidence.as_ref()?;
    Some(evidence.windows.last().map_or(u64::MAX, |window| window.id.saturating_add(1)))
}

/// A comparison of what the gateway did not split as declared decides nothing.
fn split_mismatch() -> (Verdict, String, &'static str) {
    let code = Reason::TrafficSplitMismatch.as_str();
    (
        Verdict::Hold,
        format!("{code}: new sessions do not reach the canary in the declared share: check the gateway"),
        code,
    )
}

/// What a pod that nothing reached says of a window: it is there. The metric is one that guards nothing.
fn idle() -> MetricWindow {
    MetricWindow {
        metric: Metric::Shed,
        unit: Unit::Run,
        stratum: String::new(),
        started: 0,
        new_sessions: 0,
        in_flight: 0,
        oldest_in_flight_microseconds: 0,
        in_flight_ages: None,
        count: 0,
        errors: 0,
        sum_microseconds: 0,
        buckets: Histogram::default(),
    }
}

/// The message for evidence that could not be read. Another configuration is intended, and has no message.
fn started_anew(error: &StateError) -> Option<String> {
    match error {
        StateError::Configuration => None,
        StateError::Version { .. } | StateError::Damaged { .. } => Some(format!("the judge begins again: {error}")),
    }
}

/// Who is to blame: `blame Engine, Tools`.
fn accused(blame: &[Blame]) -> String {
    let names: Vec<&str> = blame.iter().map(|blame| blame.as_str()).collect();
    format!("blame {}", names.join(", "))
}

fn write(
    rollout: &mut RolloutStatus,
    judge: &Judge,
    reference: Reference,
    (verdict, code, text): (Verdict, &str, String),
) {
    rollout.verdict = Some(verdict);
    rollout.reason = Some(code.to_owned());
    rollout.message = Some(text.chars().take(512).collect());
    rollout.judge_state = Some(judge.encode());
    let expectation = judge.expected_time_to_verdict(reference);
    rollout.expected_verdict_seconds = match expectation {
        Expectation::Seconds(seconds) | Expectation::Unreachable { seconds: Some(seconds), .. } => {
            i64::try_from(seconds).ok()
        }
        Expectation::Unknown | Expectation::Unreachable { seconds: None, .. } => None,
    };
    rollout.expected_verdict = match expectation {
        Expectation::Unknown => None,
        Expectation::Seconds(seconds) => Some(format!("about {} min at today's traffic", seconds.div_ceil(60))),
        Expectation::Unreachable { seconds: None, .. } => {
            Some("not within a week at today's traffic: shorten the list of objectives or raise the weights".to_owned())
        }
        Expectation::Unreachable { seconds: Some(seconds), schedule_seconds } => Some(format!(
            "about {} min at today's traffic, beyond the {} min of all maxSoak together",
            seconds.div_ceil(60),
            schedule_seconds / 60
        )),
    };
    let weighed = judge.evidence().into_iter().filter(|evidence| evidence.weight > 0.0);
    let mut evidence: Vec<LogEvidence> = weighed
        .map(|evidence| LogEvidence {
            guard: Suspect { key: evidence.key, harm: evidence.harm }.to_string(),
            log_evidence: logarithm(evidence.ln_e),
            log_evidence_thousandths: Some((evidence.ln_e * 1e3).round() as i64),
        })
        .collect();
    evidence.sort_by(|a, b| a.guard.cmp(&b.guard));
    evidence.dedup_by(|a, b| a.guard == b.guard);
    evidence.truncate(64);
    rollout.evidence = evidence;
}

/// Two decimals; a rounded zero has no sign.
fn logarithm(value: f64) -> String {
    format!("{:.2}", if value.abs() < 0.005 { 0.0 } else { value })
}

/// What a revision changes decides what guards it: a slower tool is not an engine's fault.
fn change(stable: &RevisionPlan, canary: &RevisionPlan) -> Change {
    let agent = stable.agent != canary.agent || canary.served.thinks_otherwise(&stable.served);
    // Who may call changes neither, nor do who hears of it, what is checked before and what is remembered.
    let (authentication, tracing) = (stable.authentication.clone(), stable.tracing.clone());
    let (recording, agent_of_stable) = (stable.recording, stable.agent.clone());
    let mut served = canary.served.clone();
    if let (Served::Artifact(served), Served::Artifact(stable)) = (&mut served, &stable.served) {
        served.preflight = stable.preflight.clone();
    }
    let rest = RevisionPlan { agent: agent_of_stable, authentication, tracing, served, recording, ..canary.clone() };
    match (agent, rest != *stable) {
        (true, false) => Change::Agent,
        (false, true) => Change::Engine,
        (true, true) | (false, false) => Change::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that answers with evidence of a version, or does not answer.
    fn pod(version: Option<u32>) -> PodEvidence {
        let evidence = version.map(|version| Evidence {
            version,
            revision: "a".to_owned(),
            pod: "a-0".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            windows: Vec::new(),
        });
        PodEvidence {
            pod: "a-0".to_owned(),
            evidence,
            refused: None,
            was_asked: true,
            broken: Vec::new(),
            is_leaving: false,
            node: None,
        }
    }

    #[test]
    fn the_first_token_is_compared_only_where_all_pods_count_that_of_users() {
        let counts =
            |versions: &[Option<u32>]| has_time_to_first_token(&versions.iter().copied().map(pod).collect::<Vec<_>>());
        assert!(counts(&[]) && counts(&[Some(2)]) && counts(&[None, Some(2)]));
        assert!(!counts(&[Some(1)]) && !counts(&[Some(2), Some(1)]) && !counts(&[None]));
    }
}
