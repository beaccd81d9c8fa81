//! What a spec will take of a cluster: engines, measurements, GPUs. Pure.
//!
//! These are bounds from the spec alone. How much memory an engine takes depends on the model, which is read later.

use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{Build, SearchSpace},
};

use crate::table::counted;

const GPU: &str = "nvidia.com/gpu";

/// A line for engines, one for measurements, and one for what serves.
#[must_use]
pub fn demand(spec: &AgentDeploymentSpec) -> String {
    let lines = [Some(engines(spec)), measurements(spec), Some(serving(spec))];
    lines.into_iter().flatten().map(|line| format!("{line}\n")).collect()
}

/// A name, and how many values it has.
type Axis = (&'static str, usize);

/// Axes of which each point is an engine.
fn build_axes(spec: &AgentDeploymentSpec) -> Vec<Axis> {
    let SearchSpace {
        precision,
        kv_cache_precision,
        tensor_parallel,
        pipeline_parallel,
        max_batch_size,
        max_num_tokens,
        ..
    } = &spec.search;
    let variants = spec.engine.custom.as_ref().map_or(0, |custom| custom.variants.len());
    vec![
        ("variants", variants),
        ("precision", precision.len()),
        ("kvCachePrecision", kv_cache_precision.len()),
        ("tensorParallel", tensor_parallel.len()),
        ("pipelineParallel", pipeline_parallel.len()),
        ("maxBatchSize", max_batch_size.len()),
        ("maxNumTokens", max_num_tokens.len()),
    ]
}

/// Axes of which each point is a measurement of an engine.
fn measured_axes(search: &SearchSpace) -> Vec<Axis> {
    let parameters = search.parameters.iter().map(|parameter| parameter.values.len().max(1)).product();
    vec![("instances", search.instances.len()), ("parameters", parameters), ("concurrency", search.concurrency.len())]
}

/// The product of all axes; an axis without a value has its default.
fn points(axes: &[Axis]) -> u64 {
    axes.iter().map(|(_, values)| (*values).max(1) as u64).fold(1, u64::saturating_mul)
}

/// The axes with several values, as a product: ` (2 precision x 2 tensorParallel)`.
fn factors(axes: &[Axis]) -> String {
    let several = axes.iter().filter(|(_, values)| *values > 1).map(|(name, values)| format!("{values} {name}"));
    let factors = several.collect::<Vec<_>>();
    if factors.is_empty() { String::new() } else { format!(" ({})", factors.join(" x ")) }
}

fn engines(spec: &AgentDeploymentSpec) -> String {
    let axes = build_axes(spec);
    let number = counted(points(&axes), "engine");
    let how = match spec.engine.backend.build() {
        Build::Custom => "built by engine.custom.builderImage",
        Build::Tools => "each built on the GPUs of a pod",
        Build::Nothing => "prepared without a GPU",
    };
    format!("engines: {number}{}, {how}", factors(&axes))
}

fn measurements(spec: &AgentDeploymentSpec) -> Option<String> {
    let budget = &spec.profiling.as_ref()?.budget;
    let axes = measured_axes(&spec.search);
    let cells = points(&build_axes(spec)).saturating_mul(points(&axes));
    let hours = String::from(budget.gpu_hours.clone());
    let unit = if gpus(spec) > 0 { "GPU hours" } else { "pod hours" };
    let month = budget.per_month.clone().map_or_else(String::new, |hours| {
        format!("; by schedule and after drift at most {} a month", String::from(hours))
    });
    Some(format!(
        "campaign: {} to choose from{}; at most {} and {hours} {unit}{month}",
        counted(cells, "cell"),
        factors(&axes),
        counted(budget.measurements.unsigned_abs().into(), "measurement"),
    ))
}

/// GPUs of a pod.
fn gpus(spec: &AgentDeploymentSpec) -> u64 {
    let limit = spec.serving.triton_resources.limits.get(GPU);
    limit.and_then(|limit| limit.parse().ok()).unwrap_or(0)
}

fn serving(spec: &AgentDeploymentSpec) -> String {
    let replicas = u64::from(spec.serving.replicas.unsigned_abs());
    let most = spec.serving.autoscaling.as_ref().map(|scaling| u64::from(scaling.max_replicas.unsigned_abs()));
    let pods = most.map_or_else(|| counted(replicas, "pod"), |most| format!("up to {}", counted(most, "pod")));
    match gpus(spec) {
        0 => format!("serving: {pods} without a GPU"),
        each => {
            let all = most.unwrap_or(replicas).saturating_mul(each);
            format!("serving: {pods} with {} each, {all} in all", counted(each, "GPU"))
        }
    }
}
