//! Whose rules are made, and by what their series are found. Pure.

use std::collections::BTreeMap;

use slipway_crds::v1alpha1::agent_deployment::Baseline;

use super::objective::BudgetedObjective;

/// Whose rules they are.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Namespace of the AgentDeployment.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Pods that it is to have.
    pub replicas: i32,
    /// What the names of runbooks are appended to.
    pub runbooks: Option<&'a str>,
    /// Whether some of its pods are those of a baseline.
    pub baseline: Baseline,
}

impl Scope<'_> {
    /// Labels by which a recorded series is found.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let labels = [("namespace", self.namespace), ("agent_deployment", self.name)];
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    pub(super) fn selector(&self) -> String {
        format!(r#"{{namespace="{}",agent_deployment="{}"}}"#, self.namespace, self.name)
    }

    pub(super) fn selector_of(&self, objective: &BudgetedObjective) -> String {
        let Self { namespace, name, .. } = self;
        format!(r#"{{namespace="{namespace}",agent_deployment="{name}",objective="{}"}}"#, objective.name)
    }

    /// Matchers of the agent's pods of all revisions: `NAME-REVISION-` and the ReplicaSet's suffix, which is shortened
    /// after a long name. Neither part has a dash, so an agent whose name begins with this one's does not match.
    pub(super) fn pods(&self) -> String {
        let Self { namespace, name, .. } = self;
        // Only where they can be: the rules of everyone else stay as they are.
        let of_baseline = match self.baseline {
            Baseline::Stable => "",
            Baseline::MirrorBaseline => "(-base)?",
        };
        format!(r#"namespace="{namespace}",pod=~"{name}-[0-9a-f]{{10}}{of_baseline}-[a-z0-9]+(-[a-z0-9]{{5}})?""#)
    }
}
