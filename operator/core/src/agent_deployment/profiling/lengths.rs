//! Whether runs that are made up fit into a sequence of the engine. Pure.

use slipway_crds::v1alpha1::agent_deployment::{Backend, SyntheticRuns};

use crate::{
    agent_deployment::{defaults, resolve::Resolved, world::World},
    why::{Blocked, Step, Why},
};

/// A run that is longer than a sequence would fail in every measurement. The agent's own instructions come on top; how
/// long they are, only the engine's tokenizer knows. A Custom engine has no length that is known.
pub(super) fn fit(world: &World, resolved: &Resolved, runs: &SyntheticRuns) -> Step<()> {
    let spec = &world.spec;
    let shape = resolved.model.shape.as_ref().filter(|_| spec.engine.backend != Backend::Custom);
    let length = shape.map_or(0, |shape| i64::from(defaults::max_seq_len(spec.engine.max_seq_len(), shape)));
    let most = runs.most_tokens(spec.agent.max_output_tokens);
    if length == 0 || most < length {
        return Ok(());
    }
    let problem = format!(
        "made-up runs have up to {most} tokens, and a sequence {length}: lower inputTokens, outputTokens, toolCalls or \
         toolResultTokens of synthetic, or raise maxSeqLen of the backend"
    );
    Err(Blocked::Stopped(Why::SpecRefused { field: "spec.profiling.workloads", problem }))
}
