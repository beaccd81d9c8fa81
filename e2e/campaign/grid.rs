//! The cells of a campaign, and what a run of the suite is asked for. Pure.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_crds::{v1alpha1::profile::ProfileInputs, values::DurationText};

/// Parameter of the demo's model: requests that are generated together.
const BATCH: &str = "max_batch";
/// Parameter of the demo's model: how long a request waits before it joins the batch.
const DELAY: &str = "execute_delay_milliseconds";
/// Both sizes of the demo's model.
const MODELS: &str = "react-256,react-512";
/// What the gates need: fewer say nothing.
const FULL_REPETITIONS: usize = 5;
const FULL_ROUNDS: usize = 10;
/// With the first measurement there is one in the middle.
const FULL_SETTLES: usize = 2;

/// One configuration of one engine at one level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    pub precision: String,
    pub instances: i32,
    pub batch: String,
    pub delay: String,
    pub level: i32,
}

impl Cell {
    /// The cell of a row, which names its engine and its configuration.
    pub fn of_row(inputs: &ProfileInputs, (engine, configuration): (&str, &str), level: i32) -> Option<Self> {
        let engine = inputs.engines.iter().find(|known| known.name == engine)?;
        let settings = &inputs.configurations.iter().find(|known| known.name == configuration)?.settings;
        Some(Self {
            precision: engine.display_name.to_uppercase(),
            instances: settings.instances?,
            batch: settings.parameters.get(BATCH)?.clone(),
            delay: settings.parameters.get(DELAY)?.clone(),
            level,
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { precision, instances, batch, delay, level } = self;
        write!(f, "{precision} x{instances}, batch {batch}, delay {delay} ms, {level} in flight")
    }
}

/// The values of each axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grid {
    pub precisions: Vec<String>,
    pub instances: Vec<i32>,
    pub batches: Vec<String>,
    pub delays: Vec<String>,
    pub levels: Vec<i32>,
}

impl Grid {
    /// The space of a manifest.
    pub fn of(agent: &Value) -> Self {
        let search = &agent["spec"]["search"];
        let texts = |values: &Value| -> Vec<String> { serde_json::from_value(values.clone()).unwrap_or_default() };
        let numbers = |values: &Value| -> Vec<i32> { serde_json::from_value(values.clone()).unwrap_or_default() };
        let parameter = |name: &str| {
            let parameters = search["parameters"].as_array().into_iter().flatten();
            parameters.clone().find(|of| of["name"] == name).map(|of| texts(&of["values"])).unwrap_or_default()
        };
        Self {
            precisions: texts(&search["precision"]),
            instances: numbers(&search["instances"]),
            batches: parameter(BATCH),
            delays: parameter(DELAY),
            levels: numbers(&search["concurrency"]),
        }
    }

    /// A space of one cell.
    pub fn only(cell: &Cell) -> Self {
        let Cell { precision, instances, batch, delay, level } = cell.clone();
        Self {
            precisions: vec![precision],
            instances: vec![instances],
            batches: vec![batch],
            delays: vec![delay],
            levels: vec![level],
        }
    }

    /// A space with every engine and little else.
    pub fn engines(&self) -> Self {
        let mut least = self.clone();
        least.instances.truncate(1);
        least.batches.truncate(1);
        least.delays.truncate(1);
        least.levels.truncate(1);
        least
    }

    /// Every cell, in the order of the axes.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for precision in &self.precisions {
            for instances in &self.instances {
                for batch in &self.batches {
                    for delay in &self.delays {
                        cells.extend(self.levels.iter().map(|level| Cell {
                            precision: precision.clone(),
                            instances: *instances,
                            batch: batch.clone(),
                            delay: delay.clone(),
                            level: *level,
                        }));
                    }
                }
            }
        }
        cells
    }

    /// As `spec.search` has it.
    pub fn search(&self) -> Value {
        json!({
            "precision": self.precisions, "instances": self.instances, "concurrency": self.levels,
            "parameters": [{"name": BATCH, "values": self.batches}, {"name": DELAY, "values": self.delays}],
        })
    }
}

/// What a run of the suite does. Each field names its variable, after `SLIPWAY_CAMPAIGN_`; lists have commas.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `MODELS`: folders of the server of models.
    pub models: Vec<String>,
    /// `PRECISIONS`, `INSTANCES`, `BATCHES`, `DELAYS` and `LEVELS`; absent ones are those of the manifest.
    pub grid: Grid,
    /// `REPETITIONS`: searches of each model.
    pub repetitions: usize,
    /// `REMEASURE`: how often brute force's best and the choices are measured again, in turn.
    pub rounds: usize,
    /// `SETTLE`: how often contenders of brute force are measured again before one of them is its best.
    pub settles: usize,
    /// `PARALLEL`: campaigns at once.
    pub parallel: usize,
    /// `CPUS`: processors of the model's container, as request and limit.
    pub cpus: String,
    /// `LIMIT`: on the p90 of a request, kept in microseconds. Where it is absent, brute force's rows give it.
    pub limit: Option<i64>,
    /// `OUTPUT`: the file that keeps results; a run goes on with what it has. Absent means that nothing is kept.
    pub output: Option<PathBuf>,
    /// Whether it is all that the gates need.
    pub is_full: bool,
}

impl Settings {
    /// Reads the variables whose names begin with `SLIPWAY_CAMPAIGN_`; an unreadable one is named.
    pub fn read(agent: &Value, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let whole = Grid::of(agent);
        let grid = Grid {
            precisions: values(&variable, "PRECISIONS", &whole.precisions)?,
            instances: values(&variable, "INSTANCES", &whole.instances)?,
            batches: values(&variable, "BATCHES", &whole.batches)?,
            delays: values(&variable, "DELAYS", &whole.delays)?,
            levels: values(&variable, "LEVELS", &whole.levels)?,
        };
        let models = values(&variable, "MODELS", &MODELS.split(',').map(str::to_owned).collect::<Vec<_>>())?;
        let repetitions = count(&variable, "REPETITIONS", FULL_REPETITIONS)?;
        let rounds = count(&variable, "REMEASURE", FULL_ROUNDS)?;
        let settles = count(&variable, "SETTLE", FULL_SETTLES)?;
        let limit = variable("SLIPWAY_CAMPAIGN_LIMIT").map(|limit| limit_in("SLIPWAY_CAMPAIGN_LIMIT", &limit));
        Ok(Self {
            is_full: grid == whole
                && models.len() >= 2
                && repetitions >= FULL_REPETITIONS
                && rounds >= FULL_ROUNDS
                && settles >= FULL_SETTLES,
            models,
            grid,
            repetitions,
            rounds,
            settles,
            parallel: count(&variable, "PARALLEL", 1)?.max(1),
            cpus: variable("SLIPWAY_CAMPAIGN_CPUS").unwrap_or_else(|| "1".to_owned()),
            limit: limit.transpose()?,
            output: variable("SLIPWAY_CAMPAIGN_OUTPUT").map(PathBuf::from),
        })
    }
}

fn values<T>(variable: impl Fn(&str) -> Option<String>, name: &str, default: &[T]) -> Result<Vec<T>, String>
where
    T: FromStr + Clone,
{
    let name = format!("SLIPWAY_CAMPAIGN_{name}");
    let Some(text) = variable(&name) else { return Ok(default.to_vec()) };
    let read = text.split(',').map(|value| value.trim().parse());
    read.collect::<Result<_, _>>().map_err(|_| format!("{name} is {text:?}: write values with commas between them"))
}

fn count(variable: impl Fn(&str) -> Option<String>, name: &str, default: usize) -> Result<usize, String> {
    let name = format!("SLIPWAY_CAMPAIGN_{name}");
    let Some(text) = variable(&name) else { return Ok(default) };
    text.parse().map_err(|_| format!("{name} is {text:?}: write a whole number"))
}

fn limit_in(name: &str, text: &str) -> Result<i64, String> {
    let limit: DurationText = text.parse().map_err(|error| format!("{name}: {error}"))?;
    i64::try_from(limit.microseconds()).map_err(|_| format!("{name} is {text:?}: write a shorter time"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    fn agent() -> Value {
        serde_norway::from_str(include_str!("../manifests/campaign/agent.yaml")).unwrap()
    }

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        Settings::read(&agent(), |name| variables.get(name).map(|text| (*text).to_owned()))
    }

    #[test]
    fn the_manifests_space_is_large_enough_to_be_searched() {
        let grid = read(&[]).unwrap().grid;
        let cells = grid.cells();
        assert_eq!(cells.len(), 64);
        assert_eq!(cells.iter().filter(|cell| cell.precision == "INT8").count(), 32);
        assert_eq!(grid.search(), agent()["spec"]["search"], "the same axes");
    }

    #[test]
    fn only_a_whole_run_is_held_to_the_gates() {
        assert!(read(&[]).unwrap().is_full);
        let smaller =
            [("MODELS", "react-256"), ("LEVELS", "2"), ("REPETITIONS", "4"), ("REMEASURE", "9"), ("SETTLE", "1")];
        for (name, value) in smaller {
            assert!(!read(&[(&format!("SLIPWAY_CAMPAIGN_{name}"), value)]).unwrap().is_full, "{name}");
        }
    }

    #[test]
    fn a_rehearsal_has_fewer_cells() {
        let settings = read(&[
            ("SLIPWAY_CAMPAIGN_INSTANCES", "1"),
            ("SLIPWAY_CAMPAIGN_BATCHES", "32"),
            ("SLIPWAY_CAMPAIGN_DELAYS", "0"),
            ("SLIPWAY_CAMPAIGN_LEVELS", "2, 8"),
            ("SLIPWAY_CAMPAIGN_LIMIT", "250ms"),
        ]);
        let settings = settings.unwrap();
        let cells: Vec<String> = settings.grid.cells().iter().map(Cell::to_string).collect();
        assert_eq!(settings.limit, Some(250_000));
        assert_eq!(
            cells,
            [
                "FP32 x1, batch 32, delay 0 ms, 2 in flight",
                "FP32 x1, batch 32, delay 0 ms, 8 in flight",
                "INT8 x1, batch 32, delay 0 ms, 2 in flight",
                "INT8 x1, batch 32, delay 0 ms, 8 in flight",
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let words = |name, text| read(&[(name, text)]).unwrap_err();
        assert_eq!(
            words("SLIPWAY_CAMPAIGN_LEVELS", "2,many"),
            "SLIPWAY_CAMPAIGN_LEVELS is \"2,many\": write values with commas between them"
        );
        assert_eq!(
            words("SLIPWAY_CAMPAIGN_PARALLEL", "-1"),
            "SLIPWAY_CAMPAIGN_PARALLEL is \"-1\": write a whole number"
        );
        assert!(words("SLIPWAY_CAMPAIGN_LIMIT", "2").starts_with("SLIPWAY_CAMPAIGN_LIMIT: \"2\" is not a duration"));
    }
}
