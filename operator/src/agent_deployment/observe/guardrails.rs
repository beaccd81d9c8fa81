//! What Prometheus says of a canary by the user's own guardrails. Reads IO.

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::Timestamp;
use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{Guardrail, RolloutStatus},
};

use super::{is_compared, rollout_of};
use crate::{
    agent_deployment::guardrails::{GuardrailView, expression, is_due},
    failure::chain,
    promql::Prometheus,
};

/// What is said where the operator knows no Prometheus.
const NO_PROMETHEUS: &str = "the operator knows no Prometheus: set prometheus.url of its chart";

/// Asks for every guardrail, where it is time.
pub async fn observe(
    prometheus: Option<&Prometheus>,
    object: &AgentDeployment,
    of: (&str, &str),
    now: Timestamp,
) -> BTreeMap<String, GuardrailView> {
    let declared = &object.spec.rollout.guardrails;
    let Some(rollout) = rollout_of(object).filter(|rollout| is_compared(object) && is_due(declared, rollout, now))
    else {
        return BTreeMap::new();
    };
    let looks = declared.iter().map(|guardrail| async {
        let view = match prometheus {
            Some(prometheus) => look(prometheus, guardrail, of, rollout).await,
            None => Err(NO_PROMETHEUS.to_owned()),
        };
        (guardrail.name.clone(), view.unwrap_or_else(|problem| GuardrailView::Failed { problem }))
    });
    join_all(looks).await.into_iter().collect()
}

async fn look(
    prometheus: &Prometheus,
    guardrail: &Guardrail,
    of: (&str, &str),
    rollout: &RolloutStatus,
) -> Result<GuardrailView, String> {
    let canary = value(prometheus, guardrail, of, rollout.canary.as_deref()).await?;
    let baseline = rollout.compared_baseline().map(|baseline| baseline.revision.as_str());
    let stable = baseline.or(rollout.stable.as_deref()).filter(|_| guardrail.max_ratio_to_stable.is_some());
    let stable = value(prometheus, guardrail, of, stable).await?;
    Ok(GuardrailView::Values { canary, stable })
}

/// The one value of a query; absent without a revision, and where there is no series.
async fn value(
    prometheus: &Prometheus,
    guardrail: &Guardrail,
    of: (&str, &str),
    revision: Option<&str>,
) -> Result<Option<f64>, String> {
    let Some(revision) = revision else { return Ok(None) };
    let series = prometheus.ask(&expression(guardrail, of, revision)).await.map_err(|error| chain(&error))?;
    match series.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.value).filter(|value| !value.is_nan())),
        several => Err(format!("its query has {} values: make one of them, as with max() or sum()", several.len())),
    }
}
