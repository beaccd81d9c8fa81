//! `slipway-analysis pareto`: the front of a table. Reads files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use slipway_analysis::{
    pareto::{Direction, Front, ParetoError},
    slo::{Bound, Limit},
};
use slipway_evaluation::table::Table;

use super::CliError;

/// Arguments of `pareto`.
#[derive(Debug, Args)]
pub struct ParetoArgs {
    /// CSV file; its first line names the columns
    #[arg(long, value_name = "FILE.csv")]
    table: PathBuf,
    /// An objective, two or three times: COLUMN:max or COLUMN:min
    #[arg(long = "objective", value_name = "COLUMN:max|min", required = true)]
    objectives: Vec<String>,
    /// A constraint a row must meet to count: COLUMN:max:LIMIT or COLUMN:min:LIMIT
    #[arg(long = "constraint", value_name = "COLUMN:max|min:LIMIT")]
    constraints: Vec<String>,
    /// The point the hypervolume is measured against, one number per objective; default: the worst values in the table
    #[arg(long, value_name = "A,B[,C]", value_delimiter = ',', allow_negative_numbers = true)]
    reference: Option<Vec<f64>>,
    /// Columns that name a row in the result
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    key: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    rows: usize,
    failed: usize,
    infeasible: usize,
    front: Vec<Member>,
    reference: Vec<f64>,
    hypervolume: f64,
}

#[derive(Debug, Serialize)]
struct Member {
    line: usize,
    #[serde(skip_serializing_if = "Map::is_empty")]
    key: Map<String, Value>,
    values: Map<String, Value>,
}

pub(super) fn run(args: &ParetoArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let objectives = args.objectives.iter().map(|text| objective(text)).collect::<Result<Vec<_>, _>>()?;
    let limits = args.constraints.iter().map(|text| limit(text)).collect::<Result<Vec<_>, _>>()?;
    let report = report(args, &objectives, &limits)?;
    serde_json::to_writer(&mut *out, &report).map_err(|e| CliError::Write(e.into()))?;
    out.write_all(b"\n").map_err(CliError::Write)
}

fn report(args: &ParetoArgs, objectives: &[(String, Direction)], limits: &[Limit]) -> Result<Report, CliError> {
    let table = Table::read(&args.table).map_err(CliError::Input)?;
    let values = objectives
        .iter()
        .map(|(name, _)| table.numbers(name))
        .collect::<Result<Vec<_>, _>>()
        .map_err(CliError::Input)?;
    let limited = limits
        .iter()
        .map(|limit| table.numbers(limit.name()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(CliError::Input)?;
    let keys = args.key.iter().map(|name| table.texts(name)).collect::<Result<Vec<_>, _>>().map_err(CliError::Input)?;
    let directions: Vec<Direction> = objectives.iter().map(|(_, direction)| *direction).collect();

    let (mut failed, mut infeasible) = (0, 0);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for row in 0..table.row_count() {
        let point: Option<Vec<f64>> = values.iter().map(|column| column[row]).collect();
        let bounded: Option<Vec<f64>> = limited.iter().map(|column| column[row]).collect();
        match (point, bounded) {
            (Some(point), Some(bounded)) if limits.iter().zip(&bounded).all(|(limit, v)| limit.is_met(*v)) => {
                rows.push(row);
                points.push(point);
            }
            (Some(_), Some(_)) => infeasible += 1,
            (None, _) | (_, None) => failed += 1,
        }
    }
    let refuse = |error: ParetoError| CliError::Argument {
        argument: "--objective, --reference".into(),
        problem: error.to_string(),
        remedy: "see --help".into(),
    };
    let front = Front::of(&points, &directions).map_err(refuse)?;
    let reference = args.reference.clone().unwrap_or_else(|| worst(&points, &directions));
    let hypervolume = front.hypervolume(&reference).map_err(refuse)?;
    let members = front.members().iter().map(|&member| Member {
        line: rows[member] + 2,
        key: args.key.iter().zip(&keys).map(|(name, cells)| (name.clone(), cells[rows[member]].into())).collect(),
        values: objectives.iter().zip(&points[member]).map(|((name, _), v)| (name.clone(), (*v).into())).collect(),
    });
    Ok(Report { rows: table.row_count(), failed, infeasible, front: members.collect(), reference, hypervolume })
}

fn worst(points: &[Vec<f64>], directions: &[Direction]) -> Vec<f64> {
    let worse = |direction: &Direction, a: f64, b: f64| match direction {
        Direction::Maximize => a.min(b),
        Direction::Minimize => a.max(b),
    };
    let column =
        |(k, direction): (usize, &Direction)| points.iter().map(|p| p[k]).reduce(|a, b| worse(direction, a, b));
    directions.iter().enumerate().map(|at| column(at).unwrap_or(0.0)).collect()
}

fn objective(text: &str) -> Result<(String, Direction), CliError> {
    match text.rsplit_once(':') {
        Some((name, "max")) if !name.is_empty() => Ok((name.into(), Direction::Maximize)),
        Some((name, "min")) if !name.is_empty() => Ok((name.into(), Direction::Minimize)),
        Some(_) | None => Err(CliError::Argument {
            argument: format!("--objective {text}"),
            problem: "not an objective".into(),
            remedy: "write COLUMN:max or COLUMN:min".into(),
        }),
    }
}

fn limit(text: &str) -> Result<Limit, CliError> {
    let refuse = || CliError::Argument {
        argument: format!("--constraint {text}"),
        problem: "not a constraint".into(),
        remedy: "write COLUMN:max:LIMIT or COLUMN:min:LIMIT with a finite number".into(),
    };
    let (rest, value) = text.rsplit_once(':').ok_or_else(refuse)?;
    let (name, kind) = rest.rsplit_once(':').ok_or_else(refuse)?;
    let value = value.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(refuse)?;
    let bound = match kind {
        "max" => Bound::AtMost(value),
        "min" => Bound::AtLeast(value),
        _ => return Err(refuse()),
    };
    Ok(Limit::new(name, bound))
}
