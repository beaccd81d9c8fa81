//! The runs of the last weeks, as Prometheus counted them. Reads IO.

use std::collections::BTreeMap;

use jiff::Timestamp;
use slipway_crds::v1alpha1::{AgentDeployment, AgentDeploymentSpec, AgentDeploymentStatus};
use slipway_operator_core::agent_deployment::monitoring::{
    build::alerts::{BudgetQueries, Scope, budget_queries},
    error_budget,
    judged_runs::{BudgetsView, JudgedRuns},
};
use slipway_vocabulary::failure::chain;
use tracing::warn;

use crate::promql::{AskError, Prometheus, Series};

/// Asks for what the error budgets of an AgentDeployment are computed from, where it is time. A Prometheus that does
/// not answer holds nothing up.
pub async fn observe(
    prometheus: Option<&Prometheus>,
    object: &AgentDeployment,
    (namespace, name): (&str, &str),
    now: Timestamp,
) -> BudgetsView {
    let Some(prometheus) = prometheus else { return BudgetsView::NotAsked };
    let nothing = AgentDeploymentStatus::default();
    if !error_budget::is_due(&object.spec.slo, object.status.as_ref().unwrap_or(&nothing), now) {
        return BudgetsView::NotAsked;
    }
    let AgentDeploymentSpec { serving, rollout, .. } = &object.spec;
    let scope = Scope { namespace, name, replicas: serving.replicas, runbooks: None, baseline: rollout.baseline };
    match ask(prometheus, namespace, &budget_queries(&scope)).await {
        Ok(view) => view,
        Err(error) => {
            let problem = chain(&error);
            warn!(namespace, name, error = problem, "error budgets stay as they were");
            BudgetsView::Failed { problem }
        }
    }
}

async fn ask(prometheus: &Prometheus, namespace: &str, queries: &BudgetQueries) -> Result<BudgetsView, AskError> {
    let runs = prometheus.ask(namespace, &queries.runs).await?;
    let seconds = prometheus.ask(namespace, &queries.seconds).await?;
    Ok(counted(&runs, &seconds))
}

/// Without a first counter there is no span yet: then nothing is known.
fn counted(runs: &[Series], seconds: &[Series]) -> BudgetsView {
    let Some(seconds) = seconds.first().map(|series| series.value).filter(|seconds| *seconds >= 0.0) else {
        return BudgetsView::NotAsked;
    };
    let mut by_objective: BTreeMap<String, JudgedRuns> = BTreeMap::new();
    for Series { labels, value } in runs.iter().filter(|series| series.value.is_finite()) {
        let (Some(objective), Some(good)) = (labels.get("objective"), labels.get("good")) else { continue };
        let judged = by_objective.entry(objective.clone()).or_default();
        if good == "true" {
            judged.good += value;
        } else {
            judged.bad += value;
        }
    }
    BudgetsView::Counted { runs: by_objective, seconds: seconds as u64 }
}
