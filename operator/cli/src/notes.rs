//! What of an accepted spec does less than it seems to, and the remedy. Pure.

use slipway_crds::{labels::GPU_PRODUCT, v1alpha1::AgentDeploymentSpec};
use slipway_selection::uncompared::{self, Uncompared};
use slipway_vocabulary::gpu;

use crate::check::Problem;

/// Every note on a spec, in the order of its fields.
pub fn notes(spec: &AgentDeploymentSpec) -> Vec<Problem> {
    let others = [uncompared(spec), answer_without_a_prompt(spec)];
    short_names(spec).into_iter().chain(others.into_iter().flatten()).collect()
}

fn note(field: &str, message: String) -> Problem {
    Problem { field: Some(field.to_owned()), message }
}

/// An objective that the spec's driver does not measure.
fn uncompared(spec: &AgentDeploymentSpec) -> Option<Problem> {
    let found: Uncompared = spec.driver().and_then(|driver| uncompared::uncompared(spec, driver))?;
    Some(note(uncompared::FIELD, found.to_string()))
}

/// GPUs by names that only nodes labelled by hand have.
fn short_names(spec: &AgentDeploymentSpec) -> Vec<Problem> {
    let field = match spec.search.gpu_products.is_empty() {
        true => format!("spec.hardware.nodeSelector[{GPU_PRODUCT}]"),
        false => "spec.search.gpuProducts".to_owned(),
    };
    spec.gpu_products().into_iter().filter_map(|product| short_name(&field, product)).collect()
}

fn short_name(field: &str, product: &str) -> Option<Problem> {
    let whole = product.strip_suffix("-SHARED").unwrap_or(product);
    let label = gpu::by_label(whole).ok().filter(|gpu| gpu.name == whole).and_then(|gpu| gpu.label())?;
    let message = format!(
        "{field} is {product}, which only nodes that are labelled by hand have: GPU feature discovery writes {label}"
    );
    Some(note(field, message))
}

/// An answer as long as prompt and answer may be together.
fn answer_without_a_prompt(spec: &AgentDeploymentSpec) -> Option<Problem> {
    let longest = spec.engine.as_ref()?.max_seq_len()?;
    let answer = spec.agent.max_output_tokens;
    let field = "spec.agent.maxOutputTokens";
    (answer >= longest).then(|| {
        let message = format!(
            "{field} is {answer}, and prompt and answer together have {longest} tokens: no answer will be that long. \
             Lower it, or raise maxSeqLen"
        );
        note(field, message)
    })
}
