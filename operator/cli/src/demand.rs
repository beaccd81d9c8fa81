//! What a spec will take of a cluster: engines, measurements, GPUs, GPU hours. Pure.
//!
//! These are bounds from the spec alone. What an engine takes of a GPU's memory depends on the model: see
//! [`mod@crate::memory`].

use serde::Serialize;
use slipway_crds::{
    labels::GPU_RESOURCE,
    v1alpha1::{
        AgentDeploymentSpec,
        agent_deployment::{Build, EngineConfiguration, SearchSpace},
    },
};

use crate::table::counted;

const HOURS_A_DAY: u64 = 24;

/// What a spec will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// The engines to choose from. Absent where another server has the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<EngineDemand>,
    /// The campaign. Absent where nothing is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignDemand>,
    /// The pods that serve.
    pub serving: ServingDemand,
    /// GPU hours, or hours of pods without a GPU.
    pub hours: Hours,
}

/// An axis with several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Axis {
    /// Its name in `spec.search`; `variants` are those of `engine.custom`, and `parameters` all combinations of them.
    pub name: &'static str,
    /// How many values it has.
    pub values: usize,
}

/// The engines to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineDemand {
    /// How many.
    pub number: u64,
    /// The axes that make them several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// How they come to be.
    pub made: Made,
}

/// How engines come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Made {
    /// The user's builder writes them.
    CustomBuilder,
    /// Each is built on the GPUs of a pod.
    OnGpus,
    /// They are prepared without a GPU.
    WithoutGpu,
}

/// A campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CampaignDemand {
    /// Engines with a configuration and a level: what there is to choose from.
    pub cells: u64,
    /// The axes that make several of each engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// Measurements, at most.
    pub most_measurements: u64,
}

/// The pods that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServingDemand {
    /// How many, at most with autoscaling.
    pub pods: u64,
    /// Whether their number follows the load.
    pub is_autoscaled: bool,
    /// GPUs of each.
    pub gpus_per_pod: u64,
    /// GPUs of all.
    pub gpus: u64,
}

/// Upper bounds of hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hours {
    /// What the hours are of.
    pub of: HoursOf,
    /// The first campaign, at most. Absent where nothing is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// Campaigns by schedule and after drift in a month, at most. Absent without a limit of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaigns_per_month: Option<String>,
    /// Serving with all pods, a day.
    pub serving_per_day: u64,
    /// What comes on top and has no bound in the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unbounded: Vec<Unbounded>,
}

/// What hours are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum HoursOf {
    /// A GPU each.
    Gpus,
    /// A pod each: there is no GPU.
    Pods,
}

impl HoursOf {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Gpus => "GPU hours",
            Self::Pods => "pod hours",
        }
    }
}

/// Work without a bound in the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unbounded {
    /// Builds of engines.
    Builds,
    /// The quality gate, engine by engine.
    Quality,
    /// Pods of a new revision beside those of the one before.
    NewRevisions,
}

impl Unbounded {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Builds => "builds",
            Self::Quality => "the quality gate",
            Self::NewRevisions => "pods of new revisions",
        }
    }
}

/// What a spec will take.
#[must_use]
pub fn demand(spec: &AgentDeploymentSpec) -> Demand {
    let engine = spec.checkpoint().map(|checkpoint| checkpoint.engine);
    let build_axes = engine.map(|engine| build_axes(spec, engine)).unwrap_or_default();
    let serving = serving(spec);
    let made = engine.map(|engine| match engine.backend.build() {
        Build::Custom => Made::CustomBuilder,
        Build::Tools => Made::OnGpus,
        Build::Nothing => Made::WithoutGpu,
    });
    let campaign = spec.profiling.as_ref().map(|profiling| {
        let axes = measured_axes(&spec.search);
        CampaignDemand {
            cells: points(&build_axes).saturating_mul(points(&axes)),
            axes: several(&axes),
            most_measurements: profiling.budget.measurements.unsigned_abs().into(),
        }
    });
    let hours = hours(spec, made, serving);
    let engines = made.map(|made| EngineDemand { number: points(&build_axes), axes: several(&build_axes), made });
    Demand { engines, campaign, serving, hours }
}

/// Axes of which each point is an engine.
fn build_axes(spec: &AgentDeploymentSpec, engine: &EngineConfiguration) -> Vec<Axis> {
    let SearchSpace {
        precision,
        kv_cache_precision,
        tensor_parallel,
        pipeline_parallel,
        max_batch_size,
        max_num_tokens,
        gpu_products,
        ..
    } = &spec.search;
    let variants = engine.custom.as_ref().map_or(0, |custom| custom.variants.len());
    let axis = |name, values| Axis { name, values };
    vec![
        axis("variants", variants),
        axis("precision", precision.len()),
        axis("kvCachePrecision", kv_cache_precision.len()),
        axis("tensorParallel", tensor_parallel.len()),
        axis("pipelineParallel", pipeline_parallel.len()),
        axis("maxBatchSize", max_batch_size.len()),
        axis("maxNumTokens", max_num_tokens.len()),
        axis("gpuProducts", gpu_products.len()),
    ]
}

/// Axes of which each point is a measurement of an engine.
fn measured_axes(search: &SearchSpace) -> Vec<Axis> {
    let parameters = search.parameters.iter().map(|parameter| parameter.values.len().max(1)).product();
    let axis = |name, values| Axis { name, values };
    vec![
        axis("instances", search.instances.len()),
        axis("queueDelayMicroseconds", search.queue_delay_microseconds.len()),
        axis("parameters", parameters),
        axis("concurrency", search.concurrency.len()),
    ]
}

/// The product of all axes; an axis without a value has its default.
fn points(axes: &[Axis]) -> u64 {
    axes.iter().map(|axis| axis.values.max(1) as u64).fold(1, u64::saturating_mul)
}

fn several(axes: &[Axis]) -> Vec<Axis> {
    axes.iter().copied().filter(|axis| axis.values > 1).collect()
}

fn serving(spec: &AgentDeploymentSpec) -> ServingDemand {
    let limit = spec.serving.triton_resources.limits.get(GPU_RESOURCE);
    let gpus_per_pod = limit.and_then(|limit| limit.parse().ok()).unwrap_or(0);
    let most = spec.serving.autoscaling.as_ref().map(|scaling| u64::from(scaling.max_replicas.unsigned_abs()));
    let pods = most.unwrap_or_else(|| u64::from(spec.serving.replicas.unsigned_abs()));
    let gpus = pods.saturating_mul(gpus_per_pod);
    ServingDemand { pods, is_autoscaled: most.is_some(), gpus_per_pod, gpus }
}

fn hours(spec: &AgentDeploymentSpec, made: Option<Made>, serving: ServingDemand) -> Hours {
    let of = if serving.gpus_per_pod > 0 { HoursOf::Gpus } else { HoursOf::Pods };
    let budget = spec.profiling.as_ref().map(|profiling| &profiling.budget);
    let units = match of {
        HoursOf::Gpus => serving.gpus,
        HoursOf::Pods => serving.pods,
    };
    let is_built = match made {
        Some(Made::CustomBuilder | Made::OnGpus) => true,
        Some(Made::WithoutGpu) | None => false,
    };
    let is_judged = spec.slo.quality.is_some();
    let unbounded = [(is_built, Unbounded::Builds), (is_judged, Unbounded::Quality), (true, Unbounded::NewRevisions)];
    Hours {
        of,
        campaign: budget.map(|budget| budget.gpu_hours.clone().into()),
        campaigns_per_month: budget.and_then(|budget| budget.per_month.clone()).map(String::from),
        serving_per_day: units.saturating_mul(HOURS_A_DAY),
        unbounded: unbounded.into_iter().filter(|(takes, _)| *takes).map(|(_, what)| what).collect(),
    }
}

/// A line for engines, one for measurements, one for what serves, and one for the hours of it all.
#[must_use]
pub fn text(demand: &Demand) -> String {
    let Demand { engines, campaign, serving, hours } = demand;
    let lines = [
        engines.as_ref().map(engines_line),
        campaign.as_ref().map(campaign_line),
        Some(serving_line(serving)),
        Some(hours_line(hours)),
    ];
    lines.into_iter().flatten().map(|line| format!("{line}\n")).collect()
}

/// The axes with several values, as a product: ` (2 precision x 2 tensorParallel)`.
fn factors(axes: &[Axis]) -> String {
    let factors: Vec<String> = axes.iter().map(|axis| format!("{} {}", axis.values, axis.name)).collect();
    if factors.is_empty() { String::new() } else { format!(" ({})", factors.join(" x ")) }
}

fn engines_line(EngineDemand { number, axes, made }: &EngineDemand) -> String {
    let how = match made {
        Made::CustomBuilder => "built by engine.custom.builderImage",
        Made::OnGpus => "each built on the GPUs of a pod",
        Made::WithoutGpu => "prepared without a GPU",
    };
    format!("engines: {}{}, {how}", counted(*number, "engine"), factors(axes))
}

fn campaign_line(CampaignDemand { cells, axes, most_measurements }: &CampaignDemand) -> String {
    let (cells, most) = (counted(*cells, "cell"), counted(*most_measurements, "measurement"));
    format!("campaign: {cells} to choose from{}; at most {most}", factors(axes))
}

fn serving_line(ServingDemand { pods, is_autoscaled, gpus_per_pod, gpus }: &ServingDemand) -> String {
    let pods = if *is_autoscaled { format!("up to {}", counted(*pods, "pod")) } else { counted(*pods, "pod") };
    match gpus_per_pod {
        0 => format!("serving: {pods} without a GPU"),
        each => format!("serving: {pods} with {} each, {gpus} in all", counted(*each, "GPU")),
    }
}

/// `GPU hours: at most 4 for a campaign; 24 a day to serve; builds and canaries come on top`.
fn hours_line(hours: &Hours) -> String {
    let Hours { of, campaign, campaigns_per_month, serving_per_day, unbounded } = hours;
    let first = campaign.as_ref().map(|hours| format!("at most {hours} for a campaign"));
    let month = campaigns_per_month
        .as_ref()
        .map(|hours| format!("at most {hours} a month for campaigns by schedule and after drift"));
    let serving = if *serving_per_day > 0 { Some(format!("{serving_per_day} a day to serve")) } else { None };
    let words: Vec<&str> = unbounded.iter().map(|what| what.as_str()).collect();
    let rest = match words.as_slice() {
        [] => None,
        [one] => Some(format!("{one} come on top")),
        [first @ .., last] => Some(format!("{} and {last} come on top", first.join(", "))),
    };
    let parts: Vec<String> = [first, month, serving, rest].into_iter().flatten().collect();
    format!("{}: {}", of.as_str(), parts.join("; "))
}
