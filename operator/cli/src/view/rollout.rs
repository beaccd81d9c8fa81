//! A rollout as a type. Pure.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::ResourceExt;
use serde::Serialize;
use slipway_analysis::judge::{
    Expectation,
    power::{Outlook, UnitsAtPercentile},
};
use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{
            GuardrailStatus, ProposedPlan, RejectedPlan, RolloutCapacity, RolloutStatus, RolloutVerdict,
        },
    },
};
use slipway_vocabulary::{
    Percentile,
    evidence::{Evidence, Metric, Quantile},
};

use crate::{
    arms::{Arms, Band, Counts, Side},
    outlook::{Forecast, forecast},
    output::Shown,
    revisions::{Share, shares},
    rollout::{is_strongest, is_under_way, rollback_bound},
};

/// A rollout: who has the traffic, what the judge says, and by which evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutView {
    /// The AgentDeployment's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether a revision is on trial.
    pub under_way: bool,
    /// The revisions with their shares of the traffic.
    pub revisions: Vec<Share>,
    /// The canary's shares step by step, in percent, as the spec has them.
    pub steps: Vec<i32>,
    /// The step that the canary is at, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i32>,
    /// What the judge says. Absent before its first verdict, and without a canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// Last values of the guardrails of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailStatus>,
    /// Available capacity, if it is less than the canary needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RolloutCapacity>,
    /// The plan that waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed: Option<ProposedPlan>,
    /// Plans that were rolled back, latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedPlan>,
    /// What the judge's check of itself says: the condition JudgeTrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_trusted: Option<Condition>,
    /// What the pods of both revisions counted. Absent where no canary has counted anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// How long verdicts take at today's traffic. Absent where it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<OutlookView>,
    /// Why the pods' counts could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl Shown for RolloutView {
    const KIND: &'static str = "Rollout";
}

/// What the judge says, and by which evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// Its verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RolloutVerdict>,
    /// The reason in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason with figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its figures were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged_at: Option<Time>,
    /// Expected duration of the whole rollout of a revision that equals stable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_verdict_seconds: Option<i64>,
    /// The logarithm at which the weighted mean of the evidence rolls the canary back.
    pub rollback_bound: f64,
    /// Evidence of harm, guard by guard.
    pub evidence: Vec<GuardEvidence>,
}

/// The evidence of one guard.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardEvidence {
    /// Its name.
    pub guard: String,
    /// Natural logarithm of its e-value.
    pub log_evidence: f64,
    /// The same as a share of the bound, from 0 to 1.
    pub share_of_bound: f64,
    /// Whether it speaks against the canary, and no other does more.
    pub is_strongest: bool,
}

/// What pods of both revisions counted since the canary began.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// The latency that is shown.
    pub metric: Metric,
    /// Five minutes of one side, in the order of time.
    pub periods: Vec<CountedPeriod>,
    /// Pod by pod.
    pub pods: Vec<CountedPod>,
}

/// Five minutes of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedPeriod {
    /// When it began.
    pub from: Time,
    /// Whose counts they are.
    pub side: Side,
    /// The counts.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedPod {
    /// Its name.
    pub pod: String,
    /// Its side.
    pub side: Side,
    /// What it counted.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Counts with two percentiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Units that finished.
    pub units: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The median with its bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<Band>,
    /// The 95th percentile with its bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<Band>,
}

/// How long verdicts take at today's traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlookView {
    /// Runs that begin per second, over all pods.
    pub runs_per_second: f64,
    /// Stable's pods.
    pub pods: usize,
    /// Seconds of traffic that this rests on.
    pub traffic_seconds: u64,
    /// The schedule of the spec, and those with fewer steps.
    pub schedules: Vec<Schedule>,
    /// What a promotion takes at the percentiles of objectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_percentiles: Vec<AtPercentile>,
}

/// From how many units a promotion can rest on the percentile of an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtPercentile {
    /// What the objective bounds.
    pub metric: Metric,
    /// Its percentile.
    pub percentile: Percentile,
    /// Comparable units of each revision. Absent where stable has not shown enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_of_each_revision: Option<u64>,
}

/// A schedule, and how long its verdicts take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// The canary's real shares, in percent.
    pub steps: Vec<f64>,
    /// Seconds until a revision that equals stable is promoted. Absent if that is unknown or takes more than a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_after_seconds: Option<u64>,
    /// Whether the spec's maxSoak ends before.
    pub is_beyond_max_soak: bool,
    /// Seconds within which 95 of 100 revisions that are half slower are rolled back. Absent if not within minSoak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_rolled_back_within_seconds: Option<u64>,
}

impl RolloutView {
    /// The rollout of an AgentDeployment. Of its pods, what they counted, or why that could not be read.
    pub fn of(object: &AgentDeployment, pods: Result<&[Evidence], String>) -> Self {
        let none = RolloutStatus::default();
        let status = object.status.as_ref();
        let rollout = status.and_then(|status| status.rollout.as_ref()).unwrap_or(&none);
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let is_self_check = |condition: &&Condition| condition.type_ == ConditionType::JudgeTrusted.as_str();
        let (pods, unread) = match pods {
            Ok(pods) => (pods, None),
            Err(why) => (&[][..], Some(why)),
        };
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            under_way: is_under_way(object),
            revisions: shares(object),
            steps: object.spec.rollout.steps.iter().map(|step| step.weight).collect(),
            step: rollout.step,
            judgement: rollout.canary.as_ref().map(|_| Judgement::of(object, rollout)),
            guardrails: if rollout.canary.is_some() { rollout.guardrails.clone() } else { Vec::new() },
            capacity: rollout.capacity.clone(),
            proposed: rollout.proposed.clone(),
            rejected: rollout.rejected.clone(),
            judge_trusted: conditions.iter().find(is_self_check).cloned(),
            counted: Arms::of(object, pods).as_ref().map(Counted::of),
            outlook: forecast(object, pods).as_ref().map(OutlookView::of),
            unread,
        }
    }
}

impl Judgement {
    /// What the judge says of a canary.
    pub fn of(object: &AgentDeployment, rollout: &RolloutStatus) -> Self {
        let bound = rollback_bound(object);
        let evidence = rollout.evidence.iter().map(|entry| {
            let log_evidence = entry.log_evidence.parse().unwrap_or(0.0);
            GuardEvidence {
                guard: entry.guard.clone(),
                log_evidence,
                share_of_bound: share_of(log_evidence, bound),
                is_strongest: is_strongest(entry, &rollout.evidence),
            }
        });
        Self {
            verdict: rollout.verdict,
            reason: rollout.reason.clone(),
            message: rollout.message.clone(),
            judged_at: rollout.judged_at.clone(),
            expected_verdict_seconds: rollout.expected_verdict_seconds,
            rollback_bound: thousandths(bound),
            evidence: evidence.collect(),
        }
    }
}

/// A share from 0 to 1, in thousandths.
fn share_of(value: f64, bound: f64) -> f64 {
    thousandths((value / bound.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
}

/// Rounded to thousandths: more digits mean nothing.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Counted {
    fn of(arms: &Arms) -> Self {
        let from = |seconds: u64| {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
        };
        let periods = arms.periods.iter().flat_map(|period| {
            period.sides.iter().map(move |(side, counts)| CountedPeriod {
                from: from(period.begin_seconds),
                side: *side,
                figures: Figures::of(counts),
            })
        });
        let pods = arms.pods.iter().map(|of| CountedPod {
            pod: of.pod.clone(),
            side: of.side,
            figures: Figures::of(&of.counts),
        });
        Self { metric: arms.metric, periods: periods.collect(), pods: pods.collect() }
    }
}

impl Figures {
    fn of(counts: &Counts) -> Self {
        Self {
            units: counts.units,
            failed: counts.failed,
            p50: counts.band(Quantile::P50),
            p95: counts.band(Quantile::P95),
        }
    }
}

impl OutlookView {
    fn of(forecast: &Forecast) -> Self {
        Self {
            runs_per_second: thousandths(forecast.runs_per_second),
            pods: forecast.pods,
            traffic_seconds: forecast.seconds,
            schedules: forecast.outlooks.iter().map(Schedule::of).collect(),
            at_percentiles: forecast.at_percentiles.iter().map(AtPercentile::of).collect(),
        }
    }
}

impl AtPercentile {
    fn of(of: &UnitsAtPercentile) -> Self {
        let UnitsAtPercentile { metric, percentile, units } = *of;
        Self { metric, percentile, units_of_each_revision: units }
    }
}

impl Schedule {
    fn of(outlook: &Outlook) -> Self {
        let Outlook { plan, promotion, rollback_seconds } = outlook;
        let (promoted_after_seconds, is_beyond_max_soak) = match promotion {
            Expectation::Unknown => (None, false),
            Expectation::Seconds(seconds) => (Some(*seconds), false),
            Expectation::Unreachable { seconds, .. } => (*seconds, true),
        };
        Self {
            steps: plan.steps.iter().map(|step| thousandths(step.weight_percent)).collect(),
            promoted_after_seconds,
            is_beyond_max_soak,
            slower_rolled_back_within_seconds: *rollback_seconds,
        }
    }
}
