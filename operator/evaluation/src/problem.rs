//! Problem files of `replay`. Reads files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use slipway_analysis::{
    pareto::Direction,
    search::{Arm, Axis, Cell, Columns, Constraint, Metric, MetricKind, ModelSize, Role, Space, Value},
    slo::Bound,
};
use slipway_vocabulary::evidence::Quantile;

use crate::{
    InputError, early_verdict,
    list_prices::list_price,
    replay::{Abort, Fractions, Problem, Row, Streams},
    requests::{Request, RequestSlo, Signal},
    table::Table,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProblemFile {
    table: PathBuf,
    arm: Vec<String>,
    level: String,
    gpus: ColumnOrNumber,
    start_seconds: ColumnOrNumber,
    run_seconds: ColumnOrNumber,
    objective: ObjectiveSpec,
    #[serde(default)]
    constraints: Vec<ConstraintSpec>,
    #[serde(default)]
    prior: BTreeMap<String, String>,
    #[serde(default)]
    roles: BTreeMap<String, Role>,
    model: Option<ModelSize>,
    abort: Option<AbortSpec>,
    noise: Option<NoiseSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ColumnOrNumber {
    Number(f64),
    Column(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectiveSpec {
    column: String,
    direction: Direction,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintSpec {
    column: String,
    max: Option<f64>,
    min: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AbortSpec {
    requests: Option<PathBuf>,
    key: Option<Vec<String>>,
    far_fraction: Option<f64>,
    near_fraction: Option<f64>,
    floor_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NoiseSpec {
    log_sd: f64,
}

/// Reads a problem and the files it names, which are relative to it.
///
/// # Errors
/// [`InputError`] naming the file, the field or column, and the remedy.
pub fn read(path: &Path) -> Result<Problem, InputError> {
    let text = fs::read_to_string(path).map_err(|source| InputError::Read { path: path.to_owned(), source })?;
    let file: ProblemFile = serde_json::from_str(&text).map_err(|e| InputError::Parse {
        path: path.to_owned(),
        remedy: "write a problem as docs/search.md describes it",
        source: Box::new(e),
    })?;
    let reader = Reader { path, file: &file };
    reader.check()?;
    let table = Table::read(&reader.beside(&file.table))?;
    reader.problem(&table)
}

struct Reader<'a> {
    path: &'a Path,
    file: &'a ProblemFile,
}

/// The grid of a table: which arm and level each row is.
struct Grid {
    arms: Vec<Vec<Value>>,
    levels: Vec<f64>,
    cells: Vec<Cell>,
}

impl Reader<'_> {
    fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn refuse(&self, field: &str, problem: impl Into<String>, remedy: &str) -> InputError {
        InputError::Value {
            path: self.path.to_owned(),
            place: format!("field {field}"),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    fn check(&self) -> Result<(), InputError> {
        let file = self.file;
        if file.arm.is_empty() {
            return Err(self.refuse("arm", "no columns", "name the columns that identify a configuration"));
        }
        for (index, constraint) in file.constraints.iter().enumerate() {
            let limits = [constraint.max, constraint.min];
            if limits.iter().flatten().count() != 1 || limits.iter().flatten().any(|limit| !limit.is_finite()) {
                let field = format!("constraints[{index}]");
                return Err(self.refuse(&field, "needs exactly one limit", "give either max or min, a finite number"));
            }
        }
        if let Some(column) = file.roles.keys().find(|c| **c != file.level && !file.arm.contains(c)) {
            let problem = "neither an arm column nor the level";
            return Err(self.refuse(&format!("roles.{column}"), problem, "give roles to the columns of arm and level"));
        }
        let measured =
            |column: &String| *column == file.objective.column || file.constraints.iter().any(|c| c.column == *column);
        if let Some(column) = file.prior.keys().find(|column| !measured(column)) {
            let problem = "neither the objective nor a constraint";
            return Err(self.refuse(
                &format!("prior.{column}"),
                problem,
                "give priors to the columns that are measured",
            ));
        }
        if let Some(noise) = file.noise.as_ref().filter(|n| !(n.log_sd.is_finite() && n.log_sd >= 0.0)) {
            return Err(self.refuse(
                "noise.logSd",
                format!("{} is no standard deviation", noise.log_sd),
                "give 0 or more",
            ));
        }
        Ok(())
    }

    fn problem(&self, table: &Table) -> Result<Problem, InputError> {
        let grid = self.grid(table)?;
        let metrics = self.metrics(table, &grid)?;
        let space = self.space(table, &grid, metrics)?;
        let rows = self.rows(table, &grid, &space)?;
        let mut problem = Problem {
            space,
            arm_columns: self.file.arm.clone(),
            rows,
            abort: Abort::Never,
            noise_log_sd: self.file.noise.as_ref().map_or(0.0, |noise| noise.log_sd),
        };
        problem.abort = self.abort(&problem)?;
        problem.space.abort_fraction = problem.abort.expected_fraction();
        Ok(problem)
    }

    fn grid(&self, table: &Table) -> Result<Grid, InputError> {
        let columns = self.file.arm.iter().map(|column| table.texts(column)).collect::<Result<Vec<_>, _>>()?;
        let loads = table.filled(&self.file.level)?;
        let mut levels = loads.clone();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let mut index: HashMap<Vec<&str>, usize> = HashMap::new();
        let mut taken: HashMap<Cell, usize> = HashMap::new();
        let (mut arms, mut cells) = (Vec::new(), Vec::new());
        for (row, load) in loads.iter().enumerate() {
            let key: Vec<&str> = columns.iter().map(|column| column[row]).collect();
            let arm = *index.entry(key.clone()).or_insert_with(|| {
                arms.push(key.iter().map(|text| value(text)).collect());
                arms.len() - 1
            });
            let cell = Cell { arm, level: levels.partition_point(|level| level < load) };
            if let Some(first) = taken.insert(cell, row) {
                return Err(InputError::Value {
                    path: self.beside(&self.file.table),
                    place: format!("line {}", row + 2),
                    problem: format!("the same arm and level as line {}", first + 2),
                    remedy: "name all identifying columns in arm, or keep one row of each".into(),
                });
            }
            cells.push(cell);
        }
        Ok(Grid { arms, levels, cells })
    }

    /// The objective's column first, then those of the constraints, each once.
    fn metrics(&self, table: &Table, grid: &Grid) -> Result<Vec<Metric>, InputError> {
        let wanted = |c: &ConstraintSpec| if c.max.is_some() { Direction::Minimize } else { Direction::Maximize };
        let objective = (self.file.objective.column.as_str(), self.file.objective.direction);
        let constraints = self.file.constraints.iter().map(|c| (c.column.as_str(), wanted(c)));
        let mut metrics: Vec<Metric> = Vec::new();
        for (name, wanted) in std::iter::once(objective).chain(constraints) {
            if metrics.iter().any(|metric| metric.name == name) {
                continue;
            }
            let prior = match self.file.prior.get(name) {
                Some(column) => by_cell(grid, &table.numbers(column)?),
                None => Vec::new(),
            };
            metrics.push(Metric { name: name.to_owned(), kind: metric_kind(name, wanted), prior });
        }
        Ok(metrics)
    }

    fn space(&self, table: &Table, grid: &Grid, metrics: Vec<Metric>) -> Result<Space, InputError> {
        let gpus = self.column(table, "gpus", &self.file.gpus)?;
        let product = self.file.arm.iter().position(|name| self.file.roles.get(name) == Some(&Role::GpuType));
        let mut arms: Vec<Arm> = grid
            .arms
            .iter()
            .enumerate()
            .map(|(engine, values)| Arm {
                values: values.clone(),
                gpus: 0.0,
                price: product.and_then(|axis| list_price(values[axis].text()?)),
                start_seconds: number(&self.file.start_seconds),
                engine,
                levels: vec![false; grid.levels.len()],
            })
            .collect();
        for (cell, gpus) in grid.cells.iter().zip(&gpus) {
            arms[cell.arm].gpus = *gpus;
            arms[cell.arm].levels[cell.level] = true;
        }
        let axis = |name: &String| Axis { name: name.clone(), role: self.file.roles.get(name).copied() };
        let constraint = |spec: &ConstraintSpec| {
            let metric = metrics.iter().position(|metric| metric.name == spec.column)?;
            let bound = spec.max.map(Bound::AtMost).or_else(|| spec.min.map(Bound::AtLeast))?;
            Some(Constraint { metric, bound })
        };
        Ok(Space {
            axes: self.file.arm.iter().map(axis).collect(),
            arms,
            levels: grid.levels.clone(),
            run_seconds: number(&self.file.run_seconds),
            constraints: self.file.constraints.iter().filter_map(constraint).collect(),
            metrics,
            objective: 0,
            direction: self.file.objective.direction,
            abort_fraction: 1.0,
            prices_known: false,
            columns: Columns::default(),
            model: self.file.model,
        })
    }

    fn rows(&self, table: &Table, grid: &Grid, space: &Space) -> Result<Vec<Vec<Option<Row>>>, InputError> {
        let start = self.column(table, "startSeconds", &self.file.start_seconds)?;
        let run = self.column(table, "runSeconds", &self.file.run_seconds)?;
        let columns = space.metrics.iter().map(|m| table.numbers(&m.name)).collect::<Result<Vec<_>, _>>()?;
        let mut rows = vec![vec![None; grid.levels.len()]; grid.arms.len()];
        for (row, cell) in grid.cells.iter().enumerate() {
            let values = columns.iter().map(|column| column[row]).collect();
            rows[cell.arm][cell.level] = Some(Row { values, start_seconds: start[row], run_seconds: run[row] });
        }
        Ok(rows)
    }

    /// One non-negative number per row.
    fn column(&self, table: &Table, field: &str, source: &ColumnOrNumber) -> Result<Vec<f64>, InputError> {
        let numbers = match source {
            ColumnOrNumber::Number(number) => vec![*number; table.row_count()],
            ColumnOrNumber::Column(column) => table.filled(column)?,
        };
        match numbers.iter().find(|number| **number < 0.0 || !number.is_finite()) {
            Some(number) => Err(self.refuse(field, format!("{number} is negative or not finite"), "give 0 or more")),
            None => Ok(numbers),
        }
    }

    fn abort(&self, problem: &Problem) -> Result<Abort, InputError> {
        let Some(spec) = &self.file.abort else { return Ok(Abort::Never) };
        let fractions = self.fractions(spec)?;
        match (&spec.requests, fractions) {
            (Some(requests), otherwise) => {
                let streams = self.streams(problem, requests, spec.key.as_deref())?;
                Ok(Abort::Streams { streams, otherwise })
            }
            (None, Some(fractions)) => Ok(Abort::Fractions(fractions)),
            (None, None) => {
                Err(self.refuse("abort", "no rule", "give requests and key, or farFraction and nearFraction"))
            }
        }
    }

    fn fractions(&self, spec: &AbortSpec) -> Result<Option<Fractions>, InputError> {
        let (Some(far), Some(near)) = (spec.far_fraction, spec.near_fraction) else {
            return match (spec.far_fraction, spec.near_fraction, spec.floor_seconds) {
                (None, None, None) => Ok(None),
                _ => Err(self.refuse(
                    "abort",
                    "one of the fractions is missing",
                    "give both farFraction and nearFraction",
                )),
            };
        };
        for (field, value) in [("abort.farFraction", far), ("abort.nearFraction", near)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(self.refuse(
                    field,
                    format!("{value} is not a share of a run"),
                    "give a number from 0 to 1",
                ));
            }
        }
        Ok(Some(Fractions { far, near, floor_seconds: spec.floor_seconds.unwrap_or(0.0).max(0.0) }))
    }

    fn streams(&self, problem: &Problem, file: &Path, key: Option<&[String]>) -> Result<Streams, InputError> {
        let key = key.ok_or_else(|| {
            self.refuse(
                "abort.key",
                "missing",
                "name the columns of the requests file that identify a run: arm columns and level",
            )
        })?;
        let table = Table::read(&self.beside(file))?;
        let columns = key.iter().map(|column| table.texts(column)).collect::<Result<Vec<_>, _>>()?;
        let cells: HashMap<Vec<String>, Cell> =
            problem.space.cells().filter_map(|cell| Some((self.identity(problem, key, cell)?, cell))).collect();
        if cells.is_empty() {
            return Err(self.refuse("abort.key", "a name that is neither an arm column nor the level", "name those"));
        }
        let mut streams = Streams::default();
        for (row, request) in early_verdict::requests(&table)?.into_iter().enumerate() {
            let identity: Vec<String> = columns.iter().map(|column| canonical(column[row])).collect();
            if let Some(cell) = cells.get(&identity) {
                streams.requests.entry(*cell).or_insert_with(Vec::<Request>::new).push(request);
            }
        }
        for constraint in &problem.space.constraints {
            if let (Some((signal, quantile)), Bound::AtMost(max_ms)) =
                (signal(&problem.space.metrics[constraint.metric].name), constraint.bound)
            {
                streams.slos.push(RequestSlo { signal, quantile, max_ms });
                streams.metrics.push(constraint.metric);
            }
        }
        Ok(streams)
    }

    fn identity(&self, problem: &Problem, key: &[String], cell: Cell) -> Option<Vec<String>> {
        let part = |column: &String| {
            if *column == self.file.level {
                return Some(canonical(&problem.space.levels[cell.level].to_string()));
            }
            let axis = self.file.arm.iter().position(|name| name == column)?;
            Some(match &problem.space.arms[cell.arm].values[axis] {
                Value::Number(number) => canonical(&number.to_string()),
                Value::Text(text) => canonical(text),
            })
        };
        key.iter().map(part).collect()
    }
}

fn number(source: &ColumnOrNumber) -> Option<f64> {
    match source {
        ColumnOrNumber::Number(number) => Some(*number),
        ColumnOrNumber::Column(_) => None,
    }
}

fn value(text: &str) -> Value {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::Number(number),
        Ok(_) | Err(_) => Value::Text(text.to_owned()),
    }
}

/// One spelling for "4" and "4.0".
fn canonical(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string())
}

/// Guesses what a column measures from its name and the direction in which it is wanted.
fn metric_kind(name: &str, wanted: Direction) -> MetricKind {
    let name = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["err", "fail"]) {
        MetricKind::ErrorRate
    } else if has(&["util", "sm_active", "busy"]) {
        MetricKind::Utilization
    } else if has(&["mem"]) {
        MetricKind::Memory
    } else if has(&["ttft", "first_token"]) {
        MetricKind::FirstToken
    } else if has(&["tpot", "itl", "inter_token", "per_token"]) {
        MetricKind::PerToken
    } else if has(&["latency", "e2e", "duration"]) {
        MetricKind::Latency
    } else if has(&["interactivity", "tok_per_user", "per_user"]) {
        MetricKind::Other
    } else if (wanted == Direction::Maximize && !has(&["power", "watt"]))
        || has(&["thr", "tok", "tps", "qps", "rps", "req_per", "per_s"])
    {
        MetricKind::Throughput
    } else if has(&["power", "watt"]) {
        MetricKind::Power
    } else if has(&["_ms", "_s", "time"]) {
        MetricKind::Latency
    } else {
        MetricKind::Other
    }
}

fn by_cell(grid: &Grid, column: &[Option<f64>]) -> Vec<Vec<Option<f64>>> {
    let mut cells = vec![vec![None; grid.levels.len()]; grid.arms.len()];
    for (cell, value) in grid.cells.iter().zip(column) {
        cells[cell.arm][cell.level] = *value;
    }
    cells
}

/// The signal and quantile that a column's name tells, as `ttft_p95_ms`; without a quantile there is no test.
fn signal(column: &str) -> Option<(Signal, Quantile)> {
    let name = column.to_lowercase();
    let signal = if name.contains("ttft") {
        Signal::Ttft
    } else if name.contains("tpot") {
        Signal::Tpot
    } else if name.contains("e2e") || name.contains("latency") {
        Signal::Latency
    } else {
        return None;
    };
    let quantile = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').find_map(quantile);
    quantile.map(|quantile| (signal, quantile))
}

/// A quantile to a tenth of a percent: `p95`, `p99.9`.
fn quantile(text: &str) -> Option<Quantile> {
    let digits = text.strip_prefix('p')?;
    let (whole, tenth) = digits.split_once('.').unwrap_or((digits, "0"));
    if tenth.len() != 1 || !(1..=2).contains(&whole.len()) {
        return None;
    }
    let (whole, tenth): (u16, u16) = (whole.parse().ok()?, tenth.parse().ok()?);
    Quantile::from_parts(100 * whole + 10 * tenth)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("p50", Some(Quantile::P50))]
    #[case("p99.9", Some(Quantile::P99_9))]
    #[case("95", None)]
    #[case("p0", None)]
    #[case("p100", None)]
    #[case("p99.95", None)]
    fn a_column_names_its_quantile_to_a_tenth_of_a_percent(#[case] text: &str, #[case] expected: Option<Quantile>) {
        assert_eq!(quantile(text), expected);
    }

    #[rstest]
    #[case("perf_throughput", Direction::Maximize, MetricKind::Throughput)]
    #[case("tok_per_s_per_dollar", Direction::Maximize, MetricKind::Throughput)]
    #[case("ttft_p95_ms", Direction::Minimize, MetricKind::FirstToken)]
    #[case("median_tpot", Direction::Minimize, MetricKind::PerToken)]
    #[case("perf_latency_p99", Direction::Minimize, MetricKind::Latency)]
    #[case("gpu_utilization", Direction::Maximize, MetricKind::Utilization)]
    #[case("gpu_memory_percent", Direction::Minimize, MetricKind::Memory)]
    #[case("gpu_power_usage", Direction::Minimize, MetricKind::Power)]
    #[case("tok_per_s_per_user", Direction::Minimize, MetricKind::Other)]
    #[case("error_rate", Direction::Minimize, MetricKind::ErrorRate)]
    fn a_column_name_tells_what_it_measures(#[case] name: &str, #[case] wanted: Direction, #[case] kind: MetricKind) {
        assert_eq!(metric_kind(name, wanted), kind);
    }
}
