//! The operator's own configuration: what the platform team decides once for all AgentDeployments. Pure: the shell
//! reads the file.

mod backends;
mod notifications;
mod prices;
mod prometheus;
mod retention;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_crds::v1alpha1::shared::ContainerResources;
use thiserror::Error;
use url::Url;

pub use backends::{BackendSettings, Backends};
pub use notifications::{
    Notifications, PagerDutySettings, ReceiverSettings, ReceiverType, SlackSettings, WebhookSettings,
};
pub use prices::{Amount, GpuPrices, NoPrice, Prices};
pub use prometheus::PrometheusSettings;
pub use retention::Retention;

/// A value of the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} of the configuration: {problem}")]
pub struct InvalidSetting {
    /// Path of the value.
    pub field: String,
    /// What is wrong, and the remedy.
    pub problem: String,
}

/// The operator's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Images of this product.
    pub images: Images,
    /// Where artifacts are kept.
    #[serde(default)]
    pub store: Store,
    /// How Jobs run.
    #[serde(default)]
    pub jobs: Jobs,
    /// What may be written for gateways.
    #[serde(default)]
    pub gateway: GatewaySettings,
    /// How generated alerting rules are labelled and explained.
    #[serde(default)]
    pub alerts: Alerts,
    /// Who can be told what happens.
    #[serde(default)]
    pub notifications: Notifications,
    /// Where the agents' counters of weeks are found.
    #[serde(default)]
    pub prometheus: PrometheusSettings,
    /// Whether pods that serve have NetworkPolicies.
    #[serde(default)]
    pub network_policies: NetworkPolicies,
    /// What GPUs cost.
    #[serde(default)]
    pub prices: Prices,
    /// Versions of backends for specs that name none.
    #[serde(default)]
    pub backends: Backends,
}

/// Whether pods that serve have NetworkPolicies, and who may read what they count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicies {
    /// Whether every revision has one, as the operator's role says too.
    pub agents: bool,
    /// The operator's own namespace. Without it policies would keep the operator from the evidence of its agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// Namespaces of those who scrape.
    pub metrics_namespaces: Vec<String>,
    /// More TCP ports that agents may reach on any host. A network compares the port of the pod behind a Service, and
    /// the URL of a tool has the Service's.
    pub agent_ports: Vec<u16>,
}

/// What may be written for gateways beside routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewaySettings {
    /// Whether the operator may read and write InferencePools, as its role says too.
    #[serde(default)]
    pub inference_pools: bool,
}

/// Images of this product, as the cluster pulls them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Images {
    /// Image of the worker.
    pub worker: String,
    /// Image of the agent runtime.
    pub agent_runtime: String,
    /// Image with Model Analyzer and perf_analyzer, in which prompts are sent; absent means the image of Triton has
    /// both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_analyzer: Option<String>,
    /// Image of the checks of GPUs; absent means that no AgentDeployment can have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<String>,
    /// When the kubelet pulls: Always, IfNotPresent or Never.
    #[serde(default)]
    pub pull_policy: PullPolicy,
}

/// When the kubelet pulls an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullPolicy {
    /// At every start of a container.
    Always,
    /// When the node does not have it.
    #[default]
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

impl PullPolicy {
    /// The name in the pod's spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// Where artifacts are kept: one claim per namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Store {
    /// Storage class of the claim; absent means the cluster's default.
    pub storage_class_name: Option<String>,
    /// ReadWriteMany where several nodes serve; ReadWriteOnce on one node.
    pub access_mode: AccessMode,
    /// Size that the claim asks for.
    pub size: String,
    /// Seconds that a built engine stays which no AgentDeployment, kept revision or campaign names.
    pub keep_unused_engines_seconds: i64,
    /// What may be removed, and when. Absent means that nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            storage_class_name: None,
            access_mode: AccessMode::ReadWriteMany,
            size: "100Gi".to_owned(),
            keep_unused_engines_seconds: 7 * 24 * 3600,
            retention: None,
        }
    }
}

/// How many nodes may mount the store at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMode {
    /// Many nodes.
    ReadWriteMany,
    /// One node.
    ReadWriteOnce,
}

impl AccessMode {
    /// The name in the claim's spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOnce => "ReadWriteOnce",
        }
    }
}

/// How Jobs run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Jobs {
    /// Seconds that a resolve or fetch Job may run.
    pub transfer_deadline_seconds: i64,
    /// Seconds that a build Job may run.
    pub build_deadline_seconds: i64,
    /// Attempts of a Job that fails for reasons of the cluster's.
    pub max_attempts: i32,
    /// Resources of containers that only run the worker's binary. Pods that serve keep those of their plan.
    pub worker_resources: ContainerResources,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            transfer_deadline_seconds: 4 * 3600,
            build_deadline_seconds: 4 * 3600,
            max_attempts: 3,
            worker_resources: worker_resources(),
        }
    }
}

/// The worker streams what it copies, and starts Model Analyzer where that sends the load: hence memory for its Python,
/// and processors enough to slow no measurement down.
fn worker_resources() -> ContainerResources {
    let quantities = |cpu: &str, memory: &str| {
        BTreeMap::from([("cpu".to_owned(), cpu.to_owned()), ("memory".to_owned(), memory.to_owned())])
    };
    ContainerResources { requests: quantities("50m", "64Mi"), limits: quantities("16", "4Gi") }
}

/// How generated alerting rules are labelled and explained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Alerts {
    /// Labels by which Prometheus selects rules, on every object that holds some. Labels of the operator's own win.
    pub rule_labels: BTreeMap<String, String>,
    /// URL of the folder of the runbooks. The name of a runbook's file is appended. Without it, alerts link to no
    /// runbook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runbook_url: Option<String>,
}

impl Settings {
    /// Checks the values that a type cannot hold to their range.
    ///
    /// # Errors
    /// When a value cannot be used; names the first.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let invalid =
            |field: &str, problem: &str| Err(InvalidSetting { field: field.to_owned(), problem: problem.to_owned() });
        let Self {
            images,
            store,
            jobs,
            gateway: _,
            alerts,
            notifications,
            prometheus,
            network_policies,
            prices,
            backends,
        } = self;
        if images.worker.is_empty() {
            return invalid("images.worker", "is empty: name the worker's image");
        }
        if images.agent_runtime.is_empty() {
            return invalid("images.agentRuntime", "is empty: name the agent runtime's image");
        }
        if images.model_analyzer.as_ref().is_some_and(String::is_empty) {
            return invalid("images.modelAnalyzer", "is empty: name an image with Model Analyzer, or leave it out");
        }
        if images.preflight.as_ref().is_some_and(String::is_empty) {
            return invalid("images.preflight", "is empty: name the image of slipway-preflight, or leave it out");
        }
        if !store.size.starts_with(|c: char| c.is_ascii_digit()) {
            return invalid("store.size", "is not a quantity: write one such as 100Gi");
        }
        if store.keep_unused_engines_seconds < 60 {
            return invalid("store.keepUnusedEnginesSeconds", "must be at least 60");
        }
        if let Some(retention) = &store.retention {
            retention.check()?;
        }
        if jobs.transfer_deadline_seconds < 1 {
            return invalid("jobs.transferDeadlineSeconds", "must be at least 1");
        }
        if jobs.build_deadline_seconds < 1 {
            return invalid("jobs.buildDeadlineSeconds", "must be at least 1");
        }
        if !(1..=10).contains(&jobs.max_attempts) {
            return invalid("jobs.maxAttempts", "must be from 1 to 10");
        }
        let ContainerResources { requests, limits } = &jobs.worker_resources;
        if !requests.values().chain(limits.values()).all(|quantity| quantity.starts_with(|c: char| c.is_ascii_digit()))
        {
            return invalid(
                "jobs.workerResources",
                "has a value that is not a quantity: write ones such as 500m or 4Gi",
            );
        }
        if alerts.runbook_url.as_ref().is_some_and(String::is_empty) {
            return invalid(
                "alerts.runbookUrl",
                "is empty: write the URL of the folder of the runbooks, or leave it out",
            );
        }
        if !alerts.rule_labels.iter().all(|(key, value)| is_label(key, value)) {
            return invalid(
                "alerts.ruleLabels",
                "has a label that Kubernetes refuses: keys and values are up to 63 letters, digits, dashes, dots and \
                 underscores, keys optionally after a prefix and a slash",
            );
        }
        if alerts.rule_labels.keys().any(|key| key.starts_with("slipway.dev/")) {
            return invalid(
                "alerts.ruleLabels",
                "has a label under slipway.dev, which is reserved for the operator: remove it",
            );
        }
        if network_policies.agents && network_policies.operator_namespace.is_none() {
            return invalid(
                "networkPolicies.operatorNamespace",
                "is missing: name the operator's namespace, from which it reads the evidence of agents",
            );
        }
        if network_policies.agent_ports.contains(&0) {
            return invalid("networkPolicies.agentPorts", "has the port 0: write ports from 1 to 65535");
        }
        notifications.check()?;
        prometheus.check()?;
        prices.check()?;
        backends.check()
    }
}

/// Whether a text is an address that requests can be sent to.
pub fn is_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether Kubernetes takes a label: an object with another one would be refused at each reconciliation.
fn is_label(key: &str, value: &str) -> bool {
    let is_word = |text: &str| {
        text.len() <= 63
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let is_domain = |text: &str| {
        (1..=253).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    };
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_domain) && is_word(name) && (value.is_empty() || is_word(value))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const GOOD: &str = "images: {worker: w, agentRuntime: r}\n";

    fn problem_of(yaml: &str) -> String {
        match serde_norway::from_str::<Settings>(yaml) {
            Err(error) => error.to_string(),
            Ok(settings) => settings.check().map_err(|error| error.to_string()).err().unwrap_or_default(),
        }
    }

    #[test]
    fn images_alone_are_a_configuration() {
        assert_eq!(problem_of(GOOD), "");
    }

    #[test]
    fn rules_can_be_labelled_for_the_prometheus_that_is_to_select_them() {
        let labels = "{release: kube-prometheus-stack, monitoring.example.com/team: ''}";
        assert_eq!(problem_of(&format!("{GOOD}alerts: {{ruleLabels: {labels}}}\n")), "");
    }

    #[rstest]
    #[case(
        "images: {worker: '', agentRuntime: r}\n",
        "images.worker of the configuration: is empty: name the worker's image"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r, modelAnalyzer: ''}\n",
        "images.modelAnalyzer of the configuration: is empty: name an image with Model Analyzer, or leave it out"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r, preflight: ''}\n",
        "images.preflight of the configuration: is empty: name the image of slipway-preflight, or leave it out"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nstore: {size: lots}\n",
        "store.size of the configuration: is not a quantity: write one such as 100Gi"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nstore: {keepUnusedEnginesSeconds: 5}\n",
        "store.keepUnusedEnginesSeconds of the configuration: must be at least 60"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nstore: {retention: {seconds: 60}}\n",
        "store.retention.seconds of the configuration: must be from 3600 to 3153600000, which is a hundred years"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\njobs: {maxAttempts: 0}\n",
        "jobs.maxAttempts of the configuration: must be from 1 to 10"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\njobs: {workerResources: {limits: {memory: lots}}}\n",
        "jobs.workerResources of the configuration: has a value that is not a quantity: write ones such as 500m or 4Gi"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nnetworkPolicies: {agentPorts: [8080, 0]}\n",
        "networkPolicies.agentPorts of the configuration: has the port 0: write ports from 1 to 65535"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nalerts: {runbookUrl: ''}\n",
        "alerts.runbookUrl of the configuration: is empty: write the URL of the folder of the runbooks, or leave it out"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nalerts: {ruleLabels: {release: our prometheus}}\n",
        "alerts.ruleLabels of the configuration: has a label that Kubernetes refuses: keys and values are up to 63 \
         letters, digits, dashes, dots and underscores, keys optionally after a prefix and a slash"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nalerts: {ruleLabels: {slipway.dev/revision: x}}\n",
        "alerts.ruleLabels of the configuration: has a label under slipway.dev, which is reserved for the operator: remove it"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nprometheus: {url: 'prometheus:9090'}\n",
        "prometheus.url of the configuration: \"prometheus:9090\" is not an address: write one such as \
         http://prometheus.monitoring:9090"
    )]
    #[case::a_negative_price(
        "images: {worker: w, agentRuntime: r}\nprices: {gpus: {NVIDIA-L4: {perHour: -0.8}}}\n",
        "prices.gpus.NVIDIA-L4.perHour of the configuration: \"-0.8\" is not a price: write US dollars an hour from 0.001 to \
         1000, such as 2.5"
    )]
    #[case::the_price_of_a_month(
        "images: {worker: w, agentRuntime: r}\nprices: {gpus: {NVIDIA-L4: {perHour: 0.8, spotPerHour: 1800}}}\n",
        "prices.gpus.NVIDIA-L4.spotPerHour of the configuration: 1800 US dollars an hour cannot be right: write a price from \
         0.001 to 1000"
    )]
    #[case::a_price_of_nothing(
        "images: {worker: w, agentRuntime: r}\nprices: {gpus: {NVIDIA-L4: {}}}\n",
        "prices.gpus.NVIDIA-L4 of the configuration: has no price: add perHour, spotPerHour or both, or leave the product out"
    )]
    #[case::a_pod_for_nothing(
        "images: {worker: w, agentRuntime: r}\nprices: {podWithoutGPU: '0'}\n",
        "prices.podWithoutGPU of the configuration: \"0\" is not a price: write US dollars an hour from 0.001 to 1000, such \
         as 2.5"
    )]
    #[case::an_unknown_field(
        "images: {worker: w, agentRuntime: r}\nprices: {gpus: {NVIDIA-L4: {perGPUHour: 0.8}}}\n",
        "prices.gpus.NVIDIA-L4: unknown field `perGPUHour`, expected `perHour` or `spotPerHour` at line 2 column 29"
    )]
    #[case::a_version_in_no_image(
        "images: {worker: w, agentRuntime: r}\nbackends: {vllm: {version: 0.12.0}}\n",
        "backends.vllm.version of the configuration: no Triton image of NVIDIA contains 0.12.0; they contain 0.6.3.post1, \
         0.7.0, 0.7.3, 0.8.1, 0.8.4, 0.9.0rc1, 0.9.2, 0.10.1.1, 0.10.2, 0.11.0, 0.11.1, 0.13.0, 0.15.1, 0.17.1, 0.19.0, \
         0.22.1, 0.24.0, 0.27.1: use one of these, or name an image"
    )]
    #[case::an_unknown_backend(
        "images: {worker: w, agentRuntime: r}\nbackends: {vLLM: {version: 0.11.0}}\n",
        "backends.vLLM of the configuration: is unknown: use one of tensorRTLLM, tensorRTLLMPyTorch, \
         tensorRTLLMPyTorchOpenAI, vllm, vllmOpenAI, sglang"
    )]
    #[case::a_version_that_is_too_old(
        "images: {worker: w, agentRuntime: r}\nbackends: {tensorRTLLM: {version: 0.14.0}}\n",
        "backends.tensorRTLLM.version of the configuration: 0.14.0 is older than 0.15, the first version whose engines are \
         built here; use 0.15.0 or later, or backend VLLM, which serves without a build"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nnetworkPolicies: {agents: true}\n",
        "networkPolicies.operatorNamespace of the configuration: is missing: name the operator's namespace, from which it reads \
         the evidence of agents"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nprometheus: {namespaceLabels: []}\n",
        "prometheus.namespaceLabels of the configuration: names no labels of Prometheus': write ones such as [namespace], or \
         leave it out"
    )]
    #[case(
        "images: {worker: w, agentRuntime: r}\nprometheus: {tokenFile: token}\n",
        "prometheus of the configuration: has credentials but no address: add url, or leave them out"
    )]
    fn a_value_out_of_range_is_named(#[case] yaml: &str, #[case] message: &str) {
        assert_eq!(problem_of(yaml), message);
    }

    #[test]
    fn an_unknown_field_is_named() {
        let message = problem_of("images: {worker: w, agentRuntime: r, triton: t}\n");
        assert!(message.contains("unknown field `triton`"), "{message}");
    }
}
