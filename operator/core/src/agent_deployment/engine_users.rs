//! Who names an Engine: AgentDeployments, the revisions that they keep, and their campaigns. Pure.

use std::collections::BTreeSet;

use slipway_crds::v1alpha1::{AgentDeployment, Profile};

use super::rollout::revision::Revision;

/// Everything that may name an Engine of a namespace.
#[derive(Debug, Clone, Default)]
pub struct Users {
    /// AgentDeployments.
    pub agent_deployments: Vec<AgentDeployment>,
    /// Revisions that AgentDeployments keep.
    pub revisions: Vec<Revision>,
    /// Campaigns.
    pub profiles: Vec<Profile>,
}

impl Users {
    /// The Engines that one of them names. What is being deleted names nothing.
    pub fn engines(&self) -> BTreeSet<String> {
        let stays = |object: &&AgentDeployment| object.metadata.deletion_timestamp.is_none();
        let statuses = self.agent_deployments.iter().filter(stays).filter_map(|object| object.status.as_ref());
        let considered = statuses.clone().flat_map(|status| &status.engines).map(|choice| &choice.name);
        let selected = statuses.filter_map(|status| status.selected.as_ref()?.engine());
        let served = self.revisions.iter().filter_map(|revision| revision.plan.served.artifact());
        let kept = served.map(|artifact| &artifact.engine.name);
        let profiles = self.profiles.iter().filter(|profile| profile.metadata.deletion_timestamp.is_none());
        let measured = profiles.flat_map(|profile| &profile.spec.inputs.engines).map(|engine| &engine.name);
        considered.chain(selected).chain(kept).chain(measured).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn agent(status: &str) -> AgentDeployment {
        let spec = "{model: {uri: 'hf://a/b'}, engine: {backend: Custom}, agent: {systemPrompt: x}}";
        let yaml = format!(
            "{{apiVersion: slipway.dev/v1alpha1, kind: AgentDeployment, metadata: {{name: a}}, spec: {spec}, status: {status}}}"
        );
        serde_norway::from_str(&yaml).expect("a valid AgentDeployment")
    }

    fn users(status: &str) -> Users {
        Users { agent_deployments: vec![agent(status)], ..Users::default() }
    }

    #[rstest]
    #[case::considered("{engines: [{name: engine-1, precision: FP32, state: ''}]}", &["engine-1"])]
    #[case::selected(
        "{selected: {displayName: a, engine: engine-1, manifestDigest: '', maxInFlight: 1, why: ''}}",
        &["engine-1"]
    )]
    #[case::none("{}", &[])]
    fn an_engine_is_used_by_whose_status_names_it(#[case] status: &str, #[case] expected: &[&str]) {
        assert_eq!(users(status).engines(), expected.iter().map(|&name| name.to_owned()).collect());
    }

    #[test]
    fn an_agent_that_is_being_deleted_uses_nothing() {
        let mut users = users("{engines: [{name: engine-1, precision: FP32, state: ''}]}");
        users.agent_deployments[0].metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(users.engines(), BTreeSet::new());
    }

    #[test]
    fn nobody_uses_an_engine_of_an_empty_namespace() {
        assert_eq!(Users::default().engines(), BTreeSet::new());
    }
}
