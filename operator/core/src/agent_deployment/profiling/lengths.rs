//! Whether runs that are made up fit into a sequence of the engine, and how many arrive. Pure.

use slipway_crds::{
    v1alpha1::agent_deployment::{Backend, ConfigMapSource, SyntheticRuns},
    values::PositiveDecimal,
};

use crate::{
    agent_deployment::{
        defaults,
        resolve::Resolved,
        world::{LongestRun, RecordedTraffic, WorkloadView, World},
    },
    why::{Blocked, Step, Why},
};

/// A run that is longer than a sequence would fail in every measurement. The agent's own instructions come on top; how
/// long they are, only the engine's tokenizer knows.
pub(super) fn fit(world: &World, resolved: &Resolved, runs: &SyntheticRuns) -> Step<()> {
    let most = runs.most_tokens(world.spec.agent.max_output_tokens);
    match sequence(resolved).filter(|length| most >= *length) {
        None => Ok(()),
        Some(length) => refused(format!(
            "made-up runs have up to {most} tokens, and a sequence {length}: lower inputTokens, outputTokens, toolCalls \
             or toolResultTokens of synthetic, or raise maxSeqLen of the backend"
        )),
    }
}

/// The same of recorded lengths.
pub(super) fn fit_recorded(world: &World, resolved: &Resolved, source: &ConfigMapSource) -> Step<()> {
    let Some(LongestRun { line, tokens }) = traffic(world, source).and_then(|traffic| traffic.longest) else {
        return Ok(());
    };
    let fits = |length: i64| i64::try_from(tokens).is_ok_and(|tokens| tokens < length);
    match sequence(resolved).filter(|length| !fits(*length)) {
        None => Ok(()),
        Some(length) => refused(format!(
            "line {line} of ConfigMap {} is a run of {tokens} tokens, and a sequence has {length}: remove the line, or \
             raise maxSeqLen of the backend",
            source.config_map.name
        )),
    }
}

/// Runs a second that were recorded over all pods, where the file says when each came.
pub(super) fn runs_per_second(world: &World, source: &ConfigMapSource) -> Option<PositiveDecimal> {
    PositiveDecimal::from_ten_thousandths(traffic(world, source)?.per_kilosecond?.saturating_mul(10))
}

fn traffic<'a>(world: &'a World, source: &ConfigMapSource) -> Option<&'a RecordedTraffic> {
    let reference = &source.config_map;
    match world.workloads.get(&(reference.name.clone(), reference.key.clone()))? {
        WorkloadView::Runs { digest: _, traffic } => Some(traffic),
        WorkloadView::Lines { .. } | WorkloadView::Invalid { .. } | WorkloadView::Missing => None,
    }
}

/// Tokens of a sequence. A Custom engine has no length that is known.
fn sequence(resolved: &Resolved) -> Option<i64> {
    let engine = &resolved.engine;
    let shape = resolved.model.shape.as_ref().filter(|_| engine.backend != Backend::Custom)?;
    Some(i64::from(defaults::max_seq_len(engine.max_seq_len(), shape))).filter(|length| *length > 0)
}

fn refused(problem: String) -> Step<()> {
    Err(Blocked::Stopped(Why::SpecRefused { field: "spec.profiling.workloads", problem }))
}
