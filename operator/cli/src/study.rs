//! A campaign as people read it: its points, their names and their results. Pure.

use slipway_crds::v1alpha1::{
    Profile, ProfileStatus,
    agent_deployment::{ProfilingDriver, WrittenObjective},
    profile::{MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};
use slipway_selection::{close, cost::dollars, select::gpu_words};

use crate::table::duration;

/// A campaign and what it found so far.
#[derive(Debug, Clone, Copy)]
pub struct Study<'a> {
    inputs: &'a ProfileInputs,
    status: &'a ProfileStatus,
}

/// Result of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assessment {
    /// It serves.
    Chosen,
    /// It was run once more at the target load, and that run is the prediction.
    Prediction,
    /// Nothing was chosen, and this comes nearest.
    Nearest,
    /// It meets the objectives, and no other point beats it in both latency and throughput.
    Front,
    /// It meets the objectives, and the point at this position beats it in both.
    Beaten(usize),
    /// It meets the objectives as far as they are measured.
    Meets,
    /// It misses an objective.
    Misses,
    /// It cannot be told whether it meets the objectives.
    Undecided,
    /// A round of a point that is known to meet the objectives. It leaves one open, and its figures count.
    Compared,
    /// It could not be measured.
    Failed,
}

impl Assessment {
    /// In words, without the point that it may name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Prediction => "prediction",
            Self::Nearest => "nearest",
            Self::Front => "front",
            Self::Beaten(_) => "beaten",
            Self::Meets => "meets",
            Self::Misses => "misses",
            Self::Undecided => "undecided",
            Self::Compared => "compared",
            Self::Failed => "failed",
        }
    }
}

impl<'a> Study<'a> {
    /// Reads a campaign; nothing where it has found nothing yet.
    pub fn of(profile: &'a Profile) -> Option<Self> {
        Some(Self { inputs: &profile.spec.inputs, status: profile.status.as_ref()? })
    }

    /// What was measured, and by what it is judged.
    pub fn inputs(&self) -> &'a ProfileInputs {
        self.inputs
    }

    /// What was found.
    pub fn status(&self) -> &'a ProfileStatus {
        self.status
    }

    /// The measurements with their positions.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &'a Measurement)> + use<'a> {
        self.status.measurements.iter().enumerate()
    }

    /// A measurement by a position that the status names.
    pub fn at(&self, position: i32) -> Option<(usize, &'a Measurement)> {
        let position = usize::try_from(position).ok()?;
        self.status.measurements.get(position).map(|row| (position, row))
    }

    /// Display name of the engine of a measurement.
    pub fn engine(&self, name: &'a str) -> &'a str {
        self.inputs.engines.iter().find(|engine| engine.name == name).map_or(name, |engine| &engine.display_name)
    }

    /// `int8/instances-2 at 4 in flight`.
    pub fn place(&self, row: &'a Measurement) -> String {
        format!("{}/{} at {} in flight", self.engine(&row.engine), row.configuration, row.level)
    }

    /// What a measurement counts, in the plural.
    pub fn unit(&self, purpose: MeasurementPurpose) -> &'static str {
        let driver = match purpose {
            MeasurementPurpose::Explore | MeasurementPurpose::Repeat => self.inputs.driver,
            MeasurementPurpose::Confirm => ProfilingDriver::AgentRun,
        };
        driver.unit().words()
    }

    /// The objective by which points are compared: the first, where measurements have it.
    pub fn judged(&self) -> Option<&'a WrittenObjective> {
        let first = self.inputs.objectives.first()?;
        let has = |row: &Measurement| find(row, first).is_some();
        self.status.measurements.iter().any(has).then_some(first)
    }

    /// The latency by which points are compared.
    pub fn latency(&self, row: &'a Measurement) -> Option<&'a MeasuredLatency> {
        self.inputs.objectives.first().and_then(|first| find(row, first)).or_else(|| row.latencies.first())
    }

    /// Result of a measurement.
    pub fn assessment(&self, position: usize, row: &'a Measurement) -> Assessment {
        let is = |named: Option<i32>| named.and_then(|at| usize::try_from(at).ok()) == Some(position);
        let choice = self.status.choice.as_ref();
        if row.purpose == MeasurementPurpose::Explore && choice.is_some_and(|choice| is_of(choice, row)) {
            return Assessment::Chosen;
        }
        if is(choice.map(|choice| choice.predicted_by)) {
            return Assessment::Prediction;
        }
        if is(self.status.infeasible.as_ref().and_then(|infeasible| infeasible.nearest)) {
            return Assessment::Nearest;
        }
        match row.verdict {
            MeasurementVerdict::Feasible => self.among_feasible(position, row),
            MeasurementVerdict::Infeasible => Assessment::Misses,
            MeasurementVerdict::Unbounded => self.among_open(row),
            MeasurementVerdict::Failed => Assessment::Failed,
        }
    }

    fn among_open(&self, row: &Measurement) -> Assessment {
        let is_compared = close::is_compared(self.inputs, &self.status.measurements, row);
        if is_compared { Assessment::Compared } else { Assessment::Undecided }
    }

    fn among_feasible(&self, position: usize, row: &'a Measurement) -> Assessment {
        let front = || self.status.front.iter().filter_map(|at| self.at(*at));
        if front().any(|(at, _)| at == position) {
            return Assessment::Front;
        }
        let Some(own) = self.latency(row).filter(|_| row.purpose == MeasurementPurpose::Explore) else {
            return Assessment::Meets;
        };
        let beats = |other: &'a Measurement| {
            self.latency(other).is_some_and(|latency| latency.microseconds <= own.microseconds)
                && other.per_kilosecond >= row.per_kilosecond
                && (self.inputs.prices.is_empty() || !is_dearer(other, row))
        };
        front().find(|(_, other)| beats(other)).map_or(Assessment::Meets, |(at, _)| Assessment::Beaten(at))
    }

    /// What is to be said of a measurement beside its numbers.
    pub fn remark(&self, position: usize, row: &'a Measurement) -> String {
        let remark = match self.assessment(position, row) {
            Assessment::Chosen => "chosen".to_owned(),
            Assessment::Prediction if row.purpose == MeasurementPurpose::Confirm => {
                "confirm run at the target load; its figures are the prediction".to_owned()
            }
            Assessment::Prediction => "its figures are the prediction".to_owned(),
            Assessment::Nearest => format!("nearest to the objectives: {}", row.reason),
            Assessment::Front => "on the front".to_owned(),
            Assessment::Beaten(by) => format!("dominated by #{}", by + 1),
            Assessment::Meets => String::new(),
            Assessment::Compared => format!("its figures count, though {}", row.reason),
            Assessment::Misses | Assessment::Undecided | Assessment::Failed => row.reason.clone(),
        };
        let round = row.round.map(|round| format!("round {round}"));
        let origin = row.measured_in.as_ref().map(|profile| format!("measured in {profile}"));
        [round, Some(remark).filter(|remark| !remark.is_empty()), origin]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Columns that only some campaigns have: what measurements cost, and what the GPUs did meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Extras {
    cost_of_thousand: bool,
    cost_of_tokens: bool,
    gpu: bool,
}

impl Extras {
    /// The columns that a campaign has something to show in.
    pub fn of(study: &Study<'_>) -> Self {
        let rows = &study.status.measurements;
        let costs = || rows.iter().filter_map(|row| row.cost);
        Self {
            cost_of_thousand: costs().next().is_some(),
            cost_of_tokens: costs().any(|cost| cost.microdollars_per_million_tokens.is_some()),
            gpu: rows.iter().any(|row| row.gpu.and_then(gpu_words).is_some()),
        }
    }

    /// Their titles.
    pub fn titles<'t>(self) -> Vec<&'t str> {
        self.shown(["$/1,000", "$/M TOKENS", "GPU"]).collect()
    }

    /// The cells of a row, with what stands where it has no such figure.
    pub fn cells(self, row: &Measurement, none: &str) -> impl Iterator<Item = String> + use<> {
        let of_thousand = row.cost.map(|cost| dollars(cost.microdollars_per_thousand));
        let of_tokens = row.cost.and_then(|cost| cost.microdollars_per_million_tokens).map(dollars);
        let cells = [of_thousand, of_tokens, row.gpu.and_then(gpu_words)];
        self.shown(cells.map(|cell| cell.unwrap_or_else(|| none.to_owned())))
    }

    fn shown<T>(self, [of_thousand, of_tokens, gpu]: [T; 3]) -> impl Iterator<Item = T> {
        let columns = [(self.cost_of_thousand, of_thousand), (self.cost_of_tokens, of_tokens), (self.gpu, gpu)];
        columns.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, column)| column)
    }
}

fn is_of(choice: &slipway_crds::v1alpha1::profile::ProfileChoice, row: &Measurement) -> bool {
    choice.engine == row.engine && choice.configuration == row.configuration && choice.level == row.level
}

fn find<'a>(row: &'a Measurement, objective: &WrittenObjective) -> Option<&'a MeasuredLatency> {
    row.latencies.iter().find(|l| l.metric == objective.metric && l.percentile == objective.percentile)
}

/// `meets`, `misses`, `undecided`, `failed` or `invalid`.
pub const fn verdict(verdict: MeasurementVerdict) -> &'static str {
    match verdict {
        MeasurementVerdict::Feasible => "meets",
        MeasurementVerdict::Infeasible => "misses",
        MeasurementVerdict::Unbounded => "undecided",
        MeasurementVerdict::Failed => "failed",
    }
}

/// A number a second, of one per 1,000 seconds.
pub fn rate(per_kilosecond: i64) -> String {
    format!("{:.2}", per_kilosecond as f64 / 1e3)
}

/// Microseconds of the API for people.
pub fn time(microseconds: i64) -> String {
    duration(u64::try_from(microseconds).unwrap_or(0))
}

/// `312ms (290ms to 341ms)`; an open end where there are too few requests for a bound.
pub fn bounded(latency: &MeasuredLatency) -> String {
    let upper = latency.upper.map_or("?".to_owned(), time);
    format!("{} ({} to {upper})", time(latency.microseconds), time(latency.lower))
}

/// Whether 1,000 cost more by one row than by another, as on a dearer GPU model.
fn is_dearer(row: &Measurement, other: &Measurement) -> bool {
    let costs = row.cost.zip(other.cost);
    costs.is_some_and(|(own, other)| own.microdollars_per_thousand > other.microdollars_per_thousand)
}
