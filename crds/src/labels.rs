//! Labels, annotations, field managers and port names: every string by which parts of Slipway find each other's
//! objects.

/// Recommended label: which program an object belongs to.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Recommended label: which AgentDeployment a serving object belongs to.
pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
/// Recommended label: the part an object plays, one of [`Component`].
pub const APP_COMPONENT: &str = "app.kubernetes.io/component";
/// Recommended label: who writes the object.
pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`APP_MANAGED_BY`] on everything the operator writes.
pub const MANAGED_BY: &str = "slipway";

/// Name of the AgentDeployment that an object serves.
pub const AGENT_DEPLOYMENT: &str = "slipway.dev/agent-deployment";
/// Name of the Engine that an object builds or serves.
pub const ENGINE: &str = "slipway.dev/engine";
/// Name of the Profile that a Job measures for.
pub const PROFILE: &str = "slipway.dev/profile";
/// Short hash of the source of the model whose engines a Profile measures.
pub const MODEL_SOURCE: &str = "slipway.dev/model-source";
/// Short hash of the plan that a serving object runs: the revision.
pub const REVISION: &str = "slipway.dev/revision";
/// Name of the Job that a pod runs for; Kubernetes' own label of that name is not under our control.
pub const JOB: &str = "slipway.dev/job";
/// Hash of an object as it was last applied, so that an unchanged object costs no write.
pub const APPLIED_HASH: &str = "slipway.dev/applied-hash";

/// Label of GPU feature discovery: the GPU model of a node.
pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
/// Label of GPU feature discovery: memory of a GPU in MiB.
pub const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// Label of GPU feature discovery: GPUs of a node.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
/// Resource by which a container gets GPUs.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// Annotation of a fetch Job: digest of the source that it brings into the store.
pub const FETCH_CONTENT: &str = "slipway.dev/fetch-content";
/// Annotation of a fetch Job: hash of the URI and the Secret by which it takes the source.
pub const FETCH_PLACE: &str = "slipway.dev/fetch-place";
/// Annotation of a Job that measures beside others: measurements that its engine may have in all.
pub const GRANTED_MEASUREMENTS: &str = "slipway.dev/granted-measurements";
/// Annotation of a Job that measures beside others: GPU time that its engine may have in all, in milliseconds.
pub const GRANTED_GPU_MILLISECONDS: &str = "slipway.dev/granted-gpu-milliseconds";

/// Field manager of the objects that the operator owns.
pub const FIELD_MANAGER: &str = "slipway";
/// Field manager of the status that the operator writes.
pub const STATUS_FIELD_MANAGER: &str = "slipway-status";

/// The part that an object plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Finds out what a model reference stands for.
    Resolve,
    /// Brings a checkpoint into the artifact store.
    Fetch,
    /// Builds an engine.
    Build,
    /// Scores an engine.
    Quality,
    /// Measures configurations.
    Profile,
    /// Serves an agent.
    Serve,
    /// Holds artifacts.
    Store,
    /// Removes artifacts that nothing needs any more.
    Sweep,
    /// Holds alerting rules.
    Alerts,
    /// Holds what is remembered to tell drift.
    Drift,
}

impl Component {
    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Fetch => "fetch",
            Self::Build => "build",
            Self::Quality => "quality",
            Self::Profile => "profile",
            Self::Serve => "serve",
            Self::Store => "store",
            Self::Sweep => "sweep",
            Self::Alerts => "alerts",
            Self::Drift => "drift",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qualified names of Kubernetes: an optional DNS prefix, a slash, and at most 63 characters that begin and end
    /// alphanumeric.
    fn is_qualified_name(key: &str) -> bool {
        let (prefix, name) = key.split_once('/').unwrap_or(("", key));
        let is_name_character = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_prefix_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        (1..=63).contains(&name.len())
            && name.chars().all(is_name_character)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
            && prefix.chars().all(is_prefix_character)
    }

    #[test]
    fn every_key_is_a_qualified_name() {
        let keys = [
            APP_NAME,
            APP_INSTANCE,
            APP_COMPONENT,
            APP_MANAGED_BY,
            AGENT_DEPLOYMENT,
            ENGINE,
            PROFILE,
            REVISION,
            JOB,
            APPLIED_HASH,
            FETCH_CONTENT,
            FETCH_PLACE,
            GRANTED_MEASUREMENTS,
            GRANTED_GPU_MILLISECONDS,
        ];
        let invalid: Vec<_> = keys.into_iter().filter(|key| !is_qualified_name(key)).collect();
        assert!(invalid.is_empty(), "not valid as label keys: {invalid:?}");
    }
}
