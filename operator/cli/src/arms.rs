//! What the pods of both revisions of a rollout counted, over time. Pure.
//!
//! Pods keep an hour of windows, and these are read where they are shown: no status keeps a second copy. So the hour
//! ends with the pods, and a rollout that is over has only what the judge said of it.

use std::collections::BTreeMap;

use serde::Serialize;
use slipway_analysis::judge::quantile::rank_bounds;
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_vocabulary::{
    LatencyObjective,
    evidence::{Evidence, Histogram, Metric, Quantile, WINDOW_SECONDS},
};

use crate::table::{counted, duration, indented, table};

/// Windows of a period: five minutes.
pub const PERIOD_WINDOWS: u64 = 30;

/// The level of the bounds: each holds at all times at once.
const ALPHA: f64 = 0.05;

/// Characters of the scale.
const SCALE: usize = 48;

/// Who is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Side {
    /// Stable, or the baseline that stands for it.
    Reference,
    /// The revision on trial.
    Canary,
}

/// A percentile with what bounds it, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Lower bound; 0 where too few values give one.
    #[serde(rename = "lowerMicroseconds")]
    pub lower: u64,
    /// The percentile itself.
    #[serde(rename = "microseconds")]
    pub point: u64,
    /// Upper bound; none where too few values give one.
    #[serde(rename = "upperMicroseconds", skip_serializing_if = "Option::is_none")]
    pub upper: Option<u64>,
}

/// What one side counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Finished units.
    pub units: u64,
    /// Those of them that failed.
    pub failed: u64,
    values: Histogram,
}

impl Counts {
    /// The band of a percentile of the successes; none without one.
    pub fn band(&self, quantile: Quantile) -> Option<Band> {
        let point = self.values.quantile(quantile)?.upper;
        let (lower, upper) = rank_bounds(self.values.count(), quantile, ALPHA);
        let value = |rank: u64| self.values.value_at_rank(rank);
        Some(Band {
            lower: lower.and_then(value).map_or(0, |value| value.lower),
            point,
            upper: upper.and_then(value).map(|value| value.upper),
        })
    }

    fn add(&mut self, other: &Self) {
        self.units = self.units.saturating_add(other.units);
        self.failed = self.failed.saturating_add(other.failed);
        self.values.merge(&other.values);
    }
}

/// Five minutes of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// Unix seconds of its start.
    pub begin_seconds: u64,
    /// The sides that counted something, in order.
    pub sides: BTreeMap<Side, Counts>,
}

/// What a pod counted since the canary began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCounts {
    /// The pod's name.
    pub pod: String,
    /// Its side.
    pub side: Side,
    /// What it counted.
    pub counts: Counts,
}

/// Both revisions of a rollout, since the canary's first unit that is still remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arms {
    /// What is shown: the metric of the first latency objective, else the latency of runs.
    pub metric: Metric,
    /// In the order of time.
    pub periods: Vec<Period>,
    /// Reference first, then by name.
    pub pods: Vec<PodCounts>,
}

impl Arms {
    /// Puts together what pods counted. None where no canary is on trial, or it has counted nothing.
    pub fn of(object: &AgentDeployment, pods: &[Evidence]) -> Option<Self> {
        let rollout = object.status.as_ref()?.rollout.as_ref()?;
        let canary = rollout.canary.as_deref()?;
        let baseline = rollout.compared_baseline().map(|baseline| baseline.revision.as_str());
        let reference = baseline.or(rollout.stable.as_deref());
        let objective = object.spec.slo.objectives.first().map(LatencyObjective::from);
        let metric = objective.map_or(Metric::AgentRunLatency, |objective| Metric::of(objective.metric));
        let side = |pod: &Evidence| match pod.revision.as_str() {
            revision if revision == canary => Some(Side::Canary),
            revision if Some(revision) == reference => Some(Side::Reference),
            _ => None,
        };
        let sided: Vec<(Side, &Evidence)> = pods.iter().filter_map(|pod| Some((side(pod)?, pod))).collect();
        let of_canary = sided.iter().filter(|(side, _)| *side == Side::Canary);
        let begin = of_canary.flat_map(|(_, pod)| windows(pod, metric)).map(|(id, _)| id).min()?;
        let mut arms = Self { metric, periods: Vec::new(), pods: Vec::new() };
        arms.fill(&sided, begin);
        Some(arms)
    }

    fn fill(&mut self, sided: &[(Side, &Evidence)], begin: u64) {
        let mut periods: BTreeMap<u64, BTreeMap<Side, Counts>> = BTreeMap::new();
        let mut pods: BTreeMap<(Side, &str), Counts> = BTreeMap::new();
        for (side, pod) in sided {
            let of_pod = pods.entry((*side, pod.pod.as_str())).or_default();
            for (id, counts) in windows(pod, self.metric).filter(|(id, _)| *id >= begin) {
                of_pod.add(&counts);
                periods.entry(id / PERIOD_WINDOWS).or_default().entry(*side).or_default().add(&counts);
            }
        }
        let begin_seconds = |period: u64| period.saturating_mul(PERIOD_WINDOWS * WINDOW_SECONDS);
        self.periods =
            periods.into_iter().map(|(period, sides)| Period { begin_seconds: begin_seconds(period), sides }).collect();
        self.pods =
            pods.into_iter().map(|((side, pod), counts)| PodCounts { pod: pod.to_owned(), side, counts }).collect();
    }

    /// Every bound and percentile that is drawn, in microseconds.
    pub fn drawn(&self) -> Vec<u64> {
        let all = self.periods.iter().flat_map(|period| period.sides.values());
        let bands = all.flat_map(|counts| [Quantile::P50, Quantile::P95].map(|quantile| counts.band(quantile)));
        let of = |band: Band| [Some(band.lower).filter(|lower| *lower > 0), Some(band.point), band.upper];
        bands.flatten().flat_map(of).flatten().collect()
    }
}

/// What a pod counted of a metric, by window: windows without a finished unit are left out.
fn windows(pod: &Evidence, metric: Metric) -> impl Iterator<Item = (u64, Counts)> + '_ {
    pod.windows.iter().filter_map(move |window| {
        let mut sum = Counts::default();
        for of in window.metrics.iter().filter(|of| of.metric == metric) {
            sum.add(&Counts { units: of.count, failed: of.errors, values: of.buckets.clone() });
        }
        (sum.units > 0).then_some((window.id, sum))
    })
}

/// The name of a side in tables.
pub fn name(side: Side) -> &'static str {
    match side {
        Side::Reference => "stable",
        Side::Canary => "canary",
    }
}

/// Draws both sides period by period, and lists the pods. It is empty where no canary has counted anything.
pub fn arms(object: &AgentDeployment, pods: &[Evidence]) -> String {
    let Some(arms) = Arms::of(object, pods) else { return String::new() };
    let drawn = arms.drawn();
    let scale = Scale { low: drawn.iter().min().copied(), high: drawn.iter().max().copied() };
    let rows: Vec<Vec<String>> =
        arms.periods.iter().flat_map(|period| period.sides.iter().map(|of| period_row(period, of, scale))).collect();
    let header = ["FROM", "REVISION", "UNITS", "FAILED", "P50", "P95", &scale.title()];
    let text = format!(
        "{}{}a line is drawn from bound to bound: = of the p50, # of the p95, and > where too few values bound it\n",
        table(&header, &rows),
        indented(&by_pod(&arms)),
    );
    format!("{} of both revisions, in periods of five minutes:\n{}", arms.metric, indented(&text))
}

fn period_row(period: &Period, (side, counts): (&Side, &Counts), scale: Scale) -> Vec<String> {
    let [p50, p95] = [Quantile::P50, Quantile::P95].map(|quantile| counts.band(quantile));
    let point = |band: Option<Band>| band.map_or("-".to_owned(), |band| duration(band.point));
    vec![
        time_of_day(period.begin_seconds),
        name(*side).to_owned(),
        counts.units.to_string(),
        counts.failed.to_string(),
        point(p50),
        point(p95),
        scale.line(&[(p50, '='), (p95, '#')]),
    ]
}

fn by_pod(arms: &Arms) -> String {
    let row = |of: &PodCounts| {
        let p95 = of.counts.band(Quantile::P95).map_or("-".to_owned(), |band| duration(band.point));
        let PodCounts { pod, side, counts } = of;
        vec![pod.clone(), name(*side).to_owned(), counts.units.to_string(), counts.failed.to_string(), p95]
    };
    let rows: Vec<_> = arms.pods.iter().map(row).collect();
    let title = format!("in the same time, by {}:", counted(rows.len() as u64, "pod"));
    format!("{title}\n{}", table(&["POD", "REVISION", "UNITS", "FAILED", "P95"], &rows))
}

/// The hour and minute of a Unix time: `14:05`, UTC.
pub fn time_of_day(seconds: u64) -> String {
    let minutes = seconds / 60;
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

/// A logarithmic scale of characters.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: Option<u64>,
    high: Option<u64>,
}

impl Scale {
    fn title(self) -> String {
        let text = |value: Option<u64>| value.map_or(String::new(), duration);
        let (low, high) = (text(self.low), text(self.high));
        let gap = SCALE.saturating_sub(low.chars().count() + high.chars().count()).max(1);
        format!("{low}{}{high}", " ".repeat(gap))
    }

    fn at(self, value: u64) -> usize {
        let [low, high, value] =
            [self.low.unwrap_or(1), self.high.unwrap_or(1), value].map(|of| (of.max(1) as f64).ln());
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        (share.clamp(0.0, 1.0) * (SCALE - 1) as f64).round() as usize
    }

    /// The bands of a line; later ones are drawn over earlier ones.
    fn line(self, bands: &[(Option<Band>, char)]) -> String {
        let mut line = vec![' '; SCALE];
        for (band, sign) in bands.iter().filter_map(|(band, sign)| Some((band.as_ref()?, sign))) {
            let end = band.upper.map_or(SCALE - 1, |upper| self.at(upper));
            (self.at(band.lower.max(1))..=end).for_each(|at| line[at] = *sign);
            if band.upper.is_none() {
                line[SCALE - 1] = '>';
            }
        }
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}
