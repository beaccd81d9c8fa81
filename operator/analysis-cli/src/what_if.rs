//! `slipway-analysis what-if`: what other objectives, prices or traffic would choose of rows that are known. Reads
//! files.

use std::io::{Write, read_to_string, stdin};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slipway_analysis::pareto::{Direction, Front};
use slipway_crds::{
    v1alpha1::{
        Profile,
        agent_deployment::{OptimizeFor, ThroughputUnit},
    },
    values::{DurationText, Percent, Percentile, PositiveDecimal},
};
use slipway_evaluation::InputError;
use slipway_selection::{
    cost,
    what_if::{Answer, AskedObjective, AskedPrice, Question, Unanswerable, Which, answer},
};
use slipway_vocabulary::LatencyMetric;

use super::CliError;

/// Arguments of `what-if`.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// A Profile, or a list of them, as `kubectl get profile -o json` writes it; - is standard input
    #[arg(long, value_name = "FILE.json")]
    profile: PathBuf,
    /// How to rank: Throughput, Latency or Cost; default: as the Profile does
    #[arg(long, value_name = "WHAT", value_parser = named::<OptimizeFor>)]
    optimize_for: Option<OptimizeFor>,
    /// A latency objective with another maximum, or one of any percentile that was measured
    #[arg(long = "objective", value_name = "NAME=MAX|METRIC:PERCENTILE=MAX", value_parser = objective)]
    objectives: Vec<AskedObjective>,
    /// Most failed requests or runs
    #[arg(long, value_name = "PERCENT")]
    error_rate_max: Option<Percent>,
    /// US dollars an hour of one GPU, or of a pod without one; for one GPU model alone: PRODUCT=DOLLARS
    #[arg(long = "price", value_name = "[PRODUCT=]DOLLARS", value_parser = price)]
    prices: Vec<AskedPrice>,
    /// Most US dollars for 1,000 requests or runs
    #[arg(long, value_name = "DOLLARS")]
    cost_max: Option<PositiveDecimal>,
    /// Requests or runs a second over all replicas: how many replicas does it need?
    #[arg(long, value_name = "PER_SECOND")]
    traffic: Option<PositiveDecimal>,
    /// Replicas that share the traffic; default: as many as it needs
    #[arg(long, value_name = "COUNT", requires = "traffic")]
    replicas: Option<i32>,
    /// What traffic and cost count: Requests or Runs; default: what the Profile's driver counts
    #[arg(long, value_name = "WHAT", value_parser = named::<ThroughputUnit>)]
    unit: Option<ThroughputUnit>,
}

/// The answer of one Profile.
#[derive(Debug, Serialize)]
struct Line<'a> {
    profile: &'a str,
    #[serde(flatten)]
    answer: Option<&'a Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unanswerable: Option<String>,
}

/// What follows from several Profiles, such as of several GPU models.
#[derive(Debug, Serialize)]
struct Compared<'a> {
    /// Profiles whose choice no other beats in latency, throughput and cost.
    front: Vec<&'a str>,
    /// The Profile whose choice costs least for 1,000.
    cheapest: &'a str,
}

pub(super) fn run(args: &WhatIfArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let profiles = read(&args.profile)?;
    let mut answered: Vec<(&str, Answer)> = Vec::new();
    for profile in &profiles {
        let name = profile.metadata.name.as_deref().unwrap_or_default();
        let inputs = &profile.spec.inputs;
        let question = question(args);
        let found = match &profile.status {
            Some(status) => answer(inputs, status, &question),
            None => Err(Unanswerable::NoRows),
        };
        let unanswerable = match &found {
            // Beside others it may be left out.
            Err(problem) if profiles.len() > 1 => Some(problem.to_string()),
            Err(problem) => {
                return Err(CliError::Unanswerable { profile: name.to_owned(), source: problem.clone() });
            }
            Ok(_) => None,
        };
        write_line(out, &Line { profile: name, answer: found.as_ref().ok(), unanswerable })?;
        answered.extend(found.ok().map(|answer| (name, answer)));
    }
    match compared(&answered) {
        Some(compared) => write_line(out, &compared),
        None => Ok(()),
    }
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), CliError> {
    serde_json::to_writer(&mut *out, line).map_err(|e| CliError::Write(e.into()))?;
    out.write_all(b"\n").map_err(CliError::Write)
}

fn question(args: &WhatIfArgs) -> Question {
    Question {
        optimize_for: args.optimize_for,
        objectives: args.objectives.clone(),
        error_rate_max: args.error_rate_max.clone(),
        prices: args.prices.clone(),
        cost_max: args.cost_max.clone(),
        traffic: args.traffic.clone(),
        replicas: args.replicas,
        unit: args.unit,
    }
}

/// Compares the choices of several Profiles that count the same, where each has a price.
fn compared<'a>(answered: &'a [(&'a str, Answer)]) -> Option<Compared<'a>> {
    let unit = answered.first()?.1.unit;
    let known = answered.iter().filter(|(_, answer)| answer.unit == unit).filter_map(|(name, answer)| {
        let choice = answer.choice.as_ref()?;
        let cost = choice.cost?.microdollars_per_thousand.value as f64;
        Some((*name, vec![choice.latencies.first()?.microseconds as f64, choice.per_kilosecond.value as f64, cost]))
    });
    let (names, points): (Vec<&str>, Vec<Vec<f64>>) = known.unzip();
    let front = Front::of(&points, &[Direction::Minimize, Direction::Maximize, Direction::Minimize]).ok()?;
    let cheapest = (0..points.len()).min_by(|a, b| points[*a][2].total_cmp(&points[*b][2]))?;
    let front = front.members().iter().map(|member| names[*member]).collect();
    (names.len() > 1).then(|| Compared { front, cheapest: names[cheapest] })
}

/// The Profiles of a file.
fn read(path: &Path) -> Result<Vec<Profile>, CliError> {
    const REMEDY: &str = "write it with kubectl get profile NAME -o json";
    let is_standard_input = path.as_os_str() == "-";
    let text = if is_standard_input { read_to_string(stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|source| CliError::Input(InputError::Read { path: path.to_owned(), source }))?;
    let parse = |source: serde_json::Error| {
        CliError::Input(InputError::Parse { path: path.to_owned(), remedy: REMEDY, source: source.into() })
    };
    let refuse = |place: String, problem: String| {
        CliError::Input(InputError::Value { path: path.to_owned(), place, problem, remedy: REMEDY.to_owned() })
    };
    let object: Value = serde_json::from_str(&text).map_err(parse)?;
    let items = match object.get("items") {
        Some(Value::Array(items)) => items.clone(),
        Some(_) | None => vec![object],
    };
    if items.is_empty() {
        return Err(refuse("items".to_owned(), "has no Profile".to_owned()));
    }
    let profile = |item: Value| match item.get("kind").and_then(Value::as_str) {
        Some("Profile") => serde_json::from_value(item).map_err(parse),
        Some(kind) => Err(refuse("kind".to_owned(), format!("is {kind}, not Profile"))),
        None => Err(refuse("kind".to_owned(), "is missing".to_owned())),
    };
    items.into_iter().map(profile).collect()
}

/// A value of the API by its name, or the names that there are.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::from(text)).map_err(|error| error.to_string())
}

fn objective(text: &str) -> Result<AskedObjective, String> {
    let (which, max) = text.split_once('=').ok_or("write NAME=MAX or METRIC:PERCENTILE=MAX, such as answer=2s")?;
    let which = match which.split_once(':') {
        Some((metric, percentile)) => Which::Of(named::<LatencyMetric>(metric)?, named::<Percentile>(percentile)?),
        None => Which::Named(which.to_owned()),
    };
    Ok(AskedObjective { which, max: DurationText::from_str(max).map_err(|error| error.to_string())? })
}

fn price(text: &str) -> Result<AskedPrice, String> {
    let (product, dollars) = text.split_once('=').map_or((None, text), |(product, dollars)| (Some(product), dollars));
    let per_hour = cost::price(dollars).map_err(|error| error.to_string())?;
    Ok(AskedPrice { gpu_product: product.map(str::to_owned), per_hour })
}
