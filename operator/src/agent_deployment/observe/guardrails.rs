//! What Prometheus says of a canary by the user's own guardrails. Reads IO.

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::Timestamp;
use slipway_crds::v1alpha1::agent_deployment::{Guardrail, RolloutStatus};
use slipway_operator_core::agent_deployment::rollout::guardrails::{GuardrailView, Scope, expression, is_due};
use slipway_vocabulary::failure::chain;

use crate::promql::{Prometheus, Series};

/// What is said where the operator knows no Prometheus.
const NO_PROMETHEUS: &str = "the operator has no Prometheus: set prometheus.url of its chart";

/// Queries every guardrail of a rollout whose canary has traffic, if they are due.
pub async fn observe(
    prometheus: Option<&Prometheus>,
    declared: &[Guardrail],
    rollout: &RolloutStatus,
    of: (&str, &str),
    now: Timestamp,
) -> BTreeMap<String, GuardrailView> {
    if !is_due(declared, rollout, now) {
        return BTreeMap::new();
    }
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
    let (namespace, agent_deployment) = of;
    let scope = Scope { namespace, labels: &prometheus.namespace_labels };
    let expression = expression(guardrail, agent_deployment, revision, scope).map_err(|error| error.to_string())?;
    let series = prometheus.ask(namespace, &expression).await.map_err(|error| chain(&error))?;
    only_value(&series)
}

/// The value of the one series that there may be. What is not a number is not a value: 0 / 0 of a rate without traffic
/// says nothing.
fn only_value(series: &[Series]) -> Result<Option<f64>, String> {
    match series {
        [] => Ok(None),
        [one] => Ok(Some(one.value).filter(|value| !value.is_nan())),
        several => {
            Err(format!("its query has {} values: reduce them to one, for example with max() or sum()", several.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_series(&[], Ok(None))]
    #[case::one(&[91.5], Ok(Some(91.5)))]
    #[case::zero_over_zero(&[f64::NAN], Ok(None))]
    #[case::beyond_every_limit(&[f64::INFINITY], Ok(Some(f64::INFINITY)))]
    #[case::several(&[1.0, f64::NAN], Err("its query has 2 values: reduce them to one, for example with max() or sum()".to_owned()))]
    fn a_guardrail_has_one_number_or_none(#[case] values: &[f64], #[case] expected: Result<Option<f64>, String>) {
        let series = |value: &f64| Series { labels: [("pod".to_owned(), value.to_string())].into(), value: *value };
        assert_eq!(only_value(&values.iter().map(series).collect::<Vec<_>>()), expected);
    }
}
