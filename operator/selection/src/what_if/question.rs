//! What is asked: other inputs of a Profile whose rows are known. Pure.

use slipway_crds::{
    labels::GPU_PRODUCT,
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{
            CostObjective, ErrorRateObjective, OptimizeFor, ThroughputObjective, ThroughputUnit, WrittenObjective,
        },
        profile::{HourlyPrice, Measurement, MeasurementPurpose, ProfileInputs},
    },
    values::{DurationText, Percent, Percentile, PositiveDecimal},
};
use slipway_vocabulary::LatencyMetric;
use thiserror::Error;

use crate::{cost::gpus, target::driver_for};

/// A question to the rows of a Profile. What it leaves out stays as the Profile has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// How to rank.
    pub optimize_for: Option<OptimizeFor>,
    /// Latency objectives, other ones or with another maximum.
    pub objectives: Vec<AskedObjective>,
    /// Maximum share of failed requests or runs.
    pub error_rate_max: Option<Percent>,
    /// Prices of one GPU, or of a pod without a GPU.
    pub prices: Vec<AskedPrice>,
    /// Maximum in US dollars for 1,000 requests or runs.
    pub cost_max: Option<PositiveDecimal>,
    /// Requests or runs a second over all replicas.
    pub traffic: Option<PositiveDecimal>,
    /// Number of replicas that share the traffic. Absent asks how many it needs.
    pub replicas: Option<i32>,
    /// What cost and traffic count. Absent means what the Profile's driver counts.
    pub unit: Option<ThroughputUnit>,
}

/// A price of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPrice {
    /// GPU model, by the label `nvidia.com/gpu.product`. Absent means every one without a price of its own.
    pub gpu_product: Option<String>,
    /// US dollars an hour.
    pub per_hour: PositiveDecimal,
}

/// A latency objective of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedObjective {
    /// Which one.
    pub which: Which,
    /// Its maximum.
    pub max: DurationText,
}

/// Names a latency objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// One that the Profile has.
    Named(String),
    /// Any percentile of a latency.
    Of(LatencyMetric, Percentile),
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unanswerable {
    /// Nothing was measured yet.
    #[error("the Profile has no measurements yet: wait until its campaign has finished one, or ask another Profile")]
    NoRows,
    /// The Profile has no objective of this name.
    #[error("the Profile has no objective {asked}: name one of {}, or write METRIC:PERCENTILE", listed(known))]
    UnknownObjective {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No row has this latency.
    #[error(
        "no measurement has {asked}: the campaign measured {}. Ask for one of them, or measure again",
        listed(known)
    )]
    NotMeasured {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Costs are asked for, and there is no price.
    #[error("costs need a price, and neither the question nor the Profile has one: give the price of an hour")]
    NoPrice,
    /// Costs are asked for, and a GPU model has no price.
    #[error(
        "costs need a price of each GPU model, and neither the question nor the Profile has one of {0}: give the price \
         of an hour"
    )]
    NoPriceOf(String),
    /// The rows count something else.
    #[error("the measurements count {counted}, not {asked}: ask in {counted}")]
    NotCounted {
        /// What is asked for.
        asked: &'static str,
        /// What rows count.
        counted: &'static str,
    },
    /// Replicas share a traffic.
    #[error("{0} replicas cannot share a traffic: write 1 or more, and the traffic")]
    Replicas(i32),
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// The inputs that a question asks about, and the price in them where there is any.
pub(super) fn asked(
    inputs: &ProfileInputs,
    status: &ProfileStatus,
    question: &Question,
) -> Result<ProfileInputs, Unanswerable> {
    let unit = question.unit.unwrap_or(inputs.driver.unit());
    let (price, prices) = (price(inputs, status, question), prices(inputs, status, question));
    let mut asked = ProfileInputs { price, prices, ..inputs.clone() };
    asked.optimize_for = question.optimize_for.unwrap_or(inputs.optimize_for);
    for objective in &question.objectives {
        asked.objectives = with_objective(asked.objectives, objective, &status.measurements)?;
    }
    if let Some(max) = &question.error_rate_max {
        asked.error_rate = Some(ErrorRateObjective { max: max.clone() });
    }
    if let Some(max) = &question.cost_max {
        asked.cost = Some(CostObjective { max: max.clone(), unit: counted(inputs, unit)? });
    }
    if asked.cost.is_some() || asked.optimize_for == OptimizeFor::Cost {
        has_prices(&asked)?;
    }
    if let Some(replicas) = question.replicas.filter(|replicas| *replicas < 1 || question.traffic.is_none()) {
        return Err(Unanswerable::Replicas(replicas));
    }
    if let Some(traffic) = &question.traffic {
        let throughput = ThroughputObjective { min: traffic.clone(), unit: counted(inputs, unit)? };
        // Without a number of replicas every throughput is enough: it is a question of how many.
        asked.throughput = question.replicas.map(|_| throughput);
        asked.replicas = question.replicas.unwrap_or(inputs.replicas);
    }
    Ok(asked)
}

/// What is counted, if any measurement counts it.
fn counted(inputs: &ProfileInputs, unit: ThroughputUnit) -> Result<ThroughputUnit, Unanswerable> {
    let counts = |purpose| driver_for(inputs, purpose).unit() == unit;
    let confirms = inputs.has_runs() && counts(MeasurementPurpose::Confirm);
    if counts(MeasurementPurpose::Explore) || confirms {
        return Ok(unit);
    }
    Err(Unanswerable::NotCounted { asked: unit.words(), counted: inputs.driver.unit().words() })
}

/// Whether every engine has a price.
fn has_prices(asked: &ProfileInputs) -> Result<(), Unanswerable> {
    let unpriced = asked.engines.iter().find(|engine| asked.price_of(&engine.name).is_none());
    match unpriced.map(|engine| &engine.gpu_product) {
        None => Ok(()),
        Some(None) => Err(Unanswerable::NoPrice),
        Some(Some(product)) => Err(Unanswerable::NoPriceOf(product.clone())),
    }
}

/// The price of all engines.
fn price(inputs: &ProfileInputs, status: &ProfileStatus, question: &Question) -> Option<HourlyPrice> {
    let label = inputs.placement.node_selector.get(GPU_PRODUCT).map(String::as_str);
    let known = inputs.price.as_ref().or(status.price.as_ref());
    let named = question.price_of(label).map(|per_hour| HourlyPrice {
        gpu_product: label.filter(|_| gpus(inputs) > 0).map(str::to_owned),
        spot: false,
        per_hour: per_hour.clone(),
    });
    named.or_else(|| known.cloned())
}

/// The prices of several GPU models, as far as they are known.
fn prices(inputs: &ProfileInputs, status: &ProfileStatus, question: &Question) -> Vec<HourlyPrice> {
    let known = if inputs.prices.is_empty() { &status.prices } else { &inputs.prices };
    let of = |product: &str| {
        let named = question.price_of(Some(product)).map(|per_hour| HourlyPrice {
            gpu_product: Some(product.to_owned()),
            spot: false,
            per_hour: per_hour.clone(),
        });
        named.or_else(|| known.iter().find(|price| price.gpu_product.as_deref() == Some(product)).cloned())
    };
    inputs.gpu_products().into_iter().filter_map(of).collect()
}

impl Question {
    /// The price of a GPU model: its own comes before that of any.
    fn price_of(&self, gpu_product: Option<&str>) -> Option<&PositiveDecimal> {
        let is_of = |price: &&AskedPrice| match &price.gpu_product {
            None => true,
            Some(named) => Some(named.as_str()) == gpu_product,
        };
        let price = self.prices.iter().filter(is_of).max_by_key(|price| price.gpu_product.is_some());
        price.map(|price| &price.per_hour)
    }
}

fn with_objective(
    mut objectives: Vec<WrittenObjective>,
    AskedObjective { which, max }: &AskedObjective,
    rows: &[Measurement],
) -> Result<Vec<WrittenObjective>, Unanswerable> {
    let is_it = |objective: &WrittenObjective| match which {
        Which::Named(name) => objective.name == *name,
        Which::Of(metric, percentile) => (objective.metric, objective.percentile) == (*metric, *percentile),
    };
    match (objectives.iter().position(is_it), which) {
        (Some(position), _) => objectives[position].max = max.clone(),
        (None, Which::Named(name)) => {
            let known = objectives.into_iter().map(|objective| objective.name).collect();
            return Err(Unanswerable::UnknownObjective { asked: name.clone(), known });
        }
        (None, Which::Of(metric, percentile)) => {
            let name = format!("{} {percentile}", metric.as_str());
            let found = rows.iter().flat_map(|row| &row.latencies);
            let known: std::collections::BTreeSet<_> = found.map(|of| (of.metric, of.percentile)).collect();
            if !known.contains(&(*metric, *percentile)) {
                let known = known.into_iter().map(|(metric, percentile)| format!("{} {percentile}", metric.as_str()));
                return Err(Unanswerable::NotMeasured { asked: name, known: known.collect() });
            }
            objectives.push(WrittenObjective { name, metric: *metric, percentile: *percentile, max: max.clone() });
        }
    }
    Ok(objectives)
}
