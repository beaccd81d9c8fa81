//! What was measured, as the file of a run keeps it, and what follows from it. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_crds::v1alpha1::profile::{MeasurementPurpose, MeasurementVerdict};

use super::{
    figures::{self, Ratio, Row},
    grid::{Cell, Grid, Settings},
};

/// Share of brute force's best that a choice must reach.
const LEAST_RATIO: f64 = 0.97;
/// Share of brute force's pod-seconds that a search may take.
const MOST_SHARE: f64 = 0.25;
/// Share of the repetitions in which both must hold.
const LEAST_PASSED: f64 = 0.8;

/// All results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub grid: Grid,
    pub cpus: String,
    pub parallel: usize,
    /// Limit of each model in microseconds, once it is known.
    pub limits: BTreeMap<String, i64>,
    /// By name.
    pub campaigns: BTreeMap<String, Campaign>,
    /// By model, once there is anything to say.
    pub summary: Vec<Summary>,
}

/// What a campaign was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// One cell of all, with a limit that every one meets.
    Brute,
    /// A contender of brute force's, once more, by the limit.
    Settle,
    /// The search of all cells.
    Search,
    /// Brute force's best or a choice, once more, as for Brute.
    Again,
}

/// One campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Campaign {
    pub model: String,
    pub kind: Kind,
    /// Repetition of a search, or round of what is measured again; from 1.
    pub number: usize,
    /// Unix time of its end.
    pub ended: u64,
    /// From the manifest to the end.
    pub seconds: f64,
    /// Its pods' times from start to end, together.
    pub pod_seconds: f64,
    pub pods: usize,
    pub choice: Option<Cell>,
    /// What the campaign says of itself.
    pub message: String,
    pub rows: Vec<Row>,
}

/// What follows of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub model: String,
    pub limit: i64,
    pub cells: usize,
    /// Cells that meet the limit, that miss it, and that one measurement leaves undecided.
    pub met: usize,
    pub missed: usize,
    pub undecided: usize,
    pub best: Option<Cell>,
    pub best_per_kilosecond: i64,
    pub pod_seconds: f64,
    /// Of these, those of the measurements themselves: pods that measure one cell each mostly start.
    pub measuring_seconds: f64,
    /// Measured again: how often the best cell met the limit, of how many.
    pub best_met: (usize, usize),
    pub searches: Vec<Searched>,
}

/// One repetition of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Searched {
    pub repetition: usize,
    pub choice: Option<Cell>,
    pub cells_measured: usize,
    pub rows: usize,
    pub pods: usize,
    pub pod_seconds: f64,
    /// Of brute force's.
    pub share: f64,
    /// The same of the measurements themselves.
    pub measuring_share: f64,
    /// Of brute force's best, measured again in turn. Absent where the choice is that cell.
    pub ratio: Option<Ratio>,
    /// Measured again: how often the choice met the limit, of how many.
    pub choice_met: (usize, usize),
    pub has_passed: bool,
}

impl Report {
    pub fn new(settings: &Settings) -> Self {
        Self {
            grid: settings.grid.clone(),
            cpus: settings.cpus.clone(),
            parallel: settings.parallel,
            limits: BTreeMap::new(),
            campaigns: BTreeMap::new(),
            summary: Vec::new(),
        }
    }

    /// The report of a run that was cut off, to go on with: what has no rows is tried again.
    pub fn resumed(mut self, settings: &Settings) -> Result<Self, String> {
        let Settings { grid, cpus, parallel, .. } = settings;
        if (&self.grid, &self.cpus, &self.parallel) != (grid, cpus, parallel) {
            return Err("the file is of another grid, of other processors or parallelism: name another".to_owned());
        }
        self.campaigns.retain(|_, campaign| !campaign.rows.is_empty());
        Ok(self)
    }

    fn of<'a>(&'a self, model: &str, kind: Kind) -> impl Iterator<Item = &'a Campaign> {
        self.campaigns.values().filter(move |campaign| campaign.model == model && campaign.kind == kind)
    }

    /// Brute force's rows, in the order of the cells.
    pub fn brute<'a>(&'a self, model: &str) -> Vec<&'a Row> {
        let mut rows: Vec<&Row> = self.of(model, Kind::Brute).filter_map(|campaign| campaign.rows.first()).collect();
        let cells = self.grid.cells();
        rows.sort_by_key(|row| cells.iter().position(|cell| *cell == row.cell));
        rows
    }

    /// Brute force's best cell by a limit, with the row that stands for it.
    pub fn best<'a>(&'a self, model: &str, limit: i64) -> Option<&'a Row> {
        let stands_for = |first: &&'a Row| {
            let cell = first.cell.clone();
            let again = self.of(model, Kind::Settle).filter_map(|campaign| campaign.rows.first());
            let rows: Vec<&Row> = std::iter::once(*first).chain(again.filter(|row| row.cell == cell)).collect();
            figures::settled(&rows, limit)
        };
        let met: Vec<&Row> = self.brute(model).iter().filter_map(stands_for).collect();
        figures::best(&met)
    }

    /// What the searches chose, each cell once.
    pub fn choices(&self, model: &str) -> Vec<Cell> {
        let mut choices: Vec<Cell> = self.of(model, Kind::Search).filter_map(|search| search.choice.clone()).collect();
        choices.sort();
        choices.dedup();
        choices
    }

    /// Throughputs of a cell that was measured again, by round.
    fn again<'a>(&'a self, model: &str, cell: &Cell) -> BTreeMap<usize, &'a Row> {
        let of_cell = |campaign: &&Campaign| campaign.rows.first().is_some_and(|row| row.cell == *cell);
        let again = self.of(model, Kind::Again).filter(of_cell);
        let row = |row: &&Row| row.verdict != MeasurementVerdict::Failed;
        again.filter_map(|campaign| Some((campaign.number, campaign.rows.first().filter(row)?))).collect()
    }

    /// What follows of a model; nothing before its limit is known.
    pub fn summary_of(&self, model: &str) -> Option<Summary> {
        let limit = *self.limits.get(model)?;
        let rows = self.brute(model);
        let with = |verdict| rows.iter().filter(|row| row.judged(limit) == verdict).count();
        let best = self.best(model, limit);
        let pod_seconds = self.of(model, Kind::Brute).map(|campaign| campaign.pod_seconds).sum::<f64>();
        let measuring_seconds = self.of(model, Kind::Brute).map(Campaign::measuring_seconds).sum::<f64>();
        let searches = self.of(model, Kind::Search);
        let again = best.map(|best| self.again(model, &best.cell)).unwrap_or_default();
        let of_brute = OfBrute { best: best.map(|best| &best.cell), again: &again, pod_seconds, measuring_seconds };
        Some(Summary {
            model: model.to_owned(),
            limit,
            cells: self.grid.cells().len(),
            met: with(MeasurementVerdict::Feasible),
            missed: with(MeasurementVerdict::Infeasible),
            undecided: with(MeasurementVerdict::Unbounded),
            best: best.map(|best| best.cell.clone()),
            best_per_kilosecond: best.map_or(0, |best| best.per_kilosecond),
            pod_seconds,
            measuring_seconds,
            best_met: meets(&again, limit),
            searches: searches.map(|search| self.searched(search, limit, &of_brute)).collect(),
        })
    }

    fn searched(&self, search: &Campaign, limit: i64, brute: &OfBrute<'_>) -> Searched {
        let explored = search.rows.iter().filter(|row| row.purpose == MeasurementPurpose::Explore).count();
        let own = search.choice.as_ref().map(|choice| self.again(&search.model, choice)).unwrap_or_default();
        let is_best = search.choice.is_some() && search.choice.as_ref() == brute.best;
        let throughput = |row: &Row| row.per_kilosecond as f64;
        let pairs = own.iter().filter_map(|(round, row)| Some((throughput(row), throughput(brute.again.get(round)?))));
        let ratio = if is_best { None } else { figures::ratio(&pairs.collect::<Vec<_>>()) };
        let share = search.pod_seconds / brute.pod_seconds;
        let is_good = is_best || ratio.is_some_and(|ratio| ratio.value >= LEAST_RATIO);
        Searched {
            repetition: search.number,
            choice: search.choice.clone(),
            cells_measured: explored,
            rows: search.rows.len(),
            pods: search.pods,
            pod_seconds: search.pod_seconds,
            share,
            measuring_share: search.measuring_seconds() / brute.measuring_seconds,
            ratio,
            choice_met: meets(&own, limit),
            has_passed: is_good && share <= MOST_SHARE,
        }
    }
}

/// What a search is compared with.
struct OfBrute<'a> {
    best: Option<&'a Cell>,
    again: &'a BTreeMap<usize, &'a Row>,
    pod_seconds: f64,
    measuring_seconds: f64,
}

impl Campaign {
    fn measuring_seconds(&self) -> f64 {
        self.rows.iter().map(|row| row.gpu_milliseconds as f64 / 1e3).sum()
    }
}

/// How many of these rows have a percentile within the limit, of how many.
fn meets(rows: &BTreeMap<usize, &Row>, limit: i64) -> (usize, usize) {
    let is_within = |row: &&&Row| row.latency.is_some_and(|latency| latency.microseconds <= limit);
    (rows.values().filter(is_within).count(), rows.len())
}

impl Summary {
    /// Whether enough repetitions passed.
    pub fn has_passed(&self) -> bool {
        let passed = self.searches.iter().filter(|search| search.has_passed).count();
        passed as f64 >= LEAST_PASSED * self.searches.len() as f64 && !self.searches.is_empty()
    }
}

/// Two tables: what brute force found of each model, and what each search did.
pub fn markdown(summaries: &[Summary]) -> String {
    let mut text = heading(&[
        "model",
        "cells",
        "p90 limit",
        "met, missed, undecided",
        "brute force's best",
        "requests/s",
        "pod-seconds (measuring)",
        "again within the limit",
    ]);
    summaries.iter().for_each(|summary| text.push_str(&brute_line(summary)));
    text.push('\n');
    text.push_str(&heading(&[
        "model",
        "search",
        "choice",
        "cells measured",
        "rows",
        "pods",
        "pod-seconds",
        "share of brute force's (measuring)",
        "throughput of brute force's best (95 %)",
        "again within the limit",
        "gates",
    ]));
    let lines = summaries.iter().flat_map(|of| of.searches.iter().map(|search| search_line(of, search)));
    lines.for_each(|line| text.push_str(&line));
    text
}

fn heading(columns: &[&str]) -> String {
    format!("{}|{}\n", line(columns.iter().map(|column| (*column).to_owned())), "---|".repeat(columns.len()))
}

fn line(columns: impl IntoIterator<Item = String>) -> String {
    let columns: Vec<String> = columns.into_iter().collect();
    format!("| {} |\n", columns.join(" | "))
}

fn brute_line(summary: &Summary) -> String {
    let (within, of) = summary.best_met;
    line([
        summary.model.clone(),
        summary.cells.to_string(),
        format!("{:.0} ms", summary.limit as f64 / 1e3),
        format!("{}, {}, {}", summary.met, summary.missed, summary.undecided),
        named(summary.best.as_ref()),
        format!("{:.1}", summary.best_per_kilosecond as f64 / 1e3),
        format!("{:.0} ({:.0})", summary.pod_seconds, summary.measuring_seconds),
        format!("{within} of {of}"),
    ])
}

fn search_line(summary: &Summary, search: &Searched) -> String {
    let (within, of) = search.choice_met;
    let ratio = match (&search.ratio, search.choice == summary.best && search.choice.is_some()) {
        (_, true) => "the same cell".to_owned(),
        (Some(ratio), false) => told(ratio),
        (None, false) => "unknown".to_owned(),
    };
    line([
        summary.model.clone(),
        search.repetition.to_string(),
        named(search.choice.as_ref()),
        search.cells_measured.to_string(),
        search.rows.to_string(),
        search.pods.to_string(),
        format!("{:.0}", search.pod_seconds),
        format!("{:.0} % ({:.0} %)", 100.0 * search.share, 100.0 * search.measuring_share),
        ratio,
        format!("{within} of {of}"),
        if search.has_passed { "passed" } else { "missed" }.to_owned(),
    ])
}

fn named(cell: Option<&Cell>) -> String {
    cell.map_or_else(|| "nothing".to_owned(), Cell::to_string)
}

fn told(ratio: &Ratio) -> String {
    let Ratio { value, bounds, pairs } = ratio;
    match bounds {
        Some((lower, upper)) => format!("{value:.3} ({lower:.3} to {upper:.3}), {pairs} pairs"),
        None => format!("{value:.3}, {pairs} pair"),
    }
}

#[cfg(test)]
mod tests;
