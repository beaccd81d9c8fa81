//! What the operator would refuse of a spec that the API server accepts, as far as the spec alone tells. Pure.
//!
//! What it would refuse of the model is said by [`crate::memory::memory`].

use slipway_agent_config as agent_config;
use slipway_crds::v1alpha1::AgentDeploymentSpec;
use slipway_worker_contract::ModelUri;

use crate::{
    check::Problem,
    memory::{self, Refused},
};

/// Every reason at once, in the words of the operator. `has_model` says that the model is known: what rests on it, and
/// on the GPU, is then said with its memory.
pub fn refusals(name: &str, spec: &AgentDeploymentSpec, has_model: bool) -> Vec<Problem> {
    let of = |field: &str, message: String| Problem { field: Some(field.to_owned()), message };
    let unread = spec.model.uri.as_deref().and_then(|uri| uri.parse::<ModelUri>().err());
    let uri = unread.map(|error| of("spec.model.uri", error.to_string()));
    let sidecar = agent_config::problems(name, spec);
    let sidecar = sidecar.iter().map(|problem| of(&problem.field(), problem.fault().to_owned()));
    let of_any_model = if has_model { Vec::new() } else { memory::refused_of_any_model(spec) };
    let engine = of_any_model.into_iter().map(|Refused { field, problem }| of(&field, problem));
    uri.into_iter().chain(engine).chain(sidecar).collect()
}
