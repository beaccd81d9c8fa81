//! A model that another server has: where that is, and what a spec has no use for then.

use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slipway_vocabulary::serving::TextDialect;

use super::{AgentDeploymentSpec, EngineConfiguration, model::ModelSource};
use crate::v1alpha1::shared::LocalObjectReference;

/// Characters of a display name, as the schema of a status has it.
const LONGEST_NAME: usize = 63;

/// A server of the OpenAI API that has the model, of any make and in any place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!self.url.matches('/v1/*$')")
    .message("upstream.url is without the path /v1, which is added to it: leave that out").field_path(".url"))]
#[x_kube(validation = Rule::new("self.url.matches('^https?://[^/?#@{}]+(/[^?#{}]*)?$')")
    .message("upstream.url is a host, and a port and a path where they are needed: put keys in headersFrom, and leave out \
        user, query and fragment").field_path(".url"))]
pub struct Upstream {
    /// URL of the server without `/v1`, such as `https://llm.example`.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub url: String,
    /// Name of the model at the server.
    #[schemars(length(min = 1, max = 256))]
    pub model: String,
    /// How it is asked: Chat (the default), or Completions for a server without chats.
    #[serde(default, skip_serializing_if = "UpstreamApi::is_default")]
    pub api: UpstreamApi,
    /// Secret with headers for every request: its keys are header names, such as `authorization`. Only the serving pod
    /// reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<LocalObjectReference>,
    /// ConfigMap with certificates in PEM of the authorities that sign the server's certificate, under any keys. The
    /// public authorities are then not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<LocalObjectReference>,
    /// Networks that the server may be in, as `http.allowedNetworks` of a tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allowed_networks: Vec<String>,
    /// Maximum number of runs of one pod in flight, each with at most one request. More are answered with 429.
    #[serde(default = "default_max_in_flight")]
    #[schemars(range(min = 1, max = 1024))]
    pub max_in_flight: i32,
    /// Maximum number of retries of a request that has no connection, or is answered by 429, 502, 503 or 504.
    #[serde(default = "default_retries")]
    #[schemars(range(min = 0, max = 5))]
    pub retries: i32,
}

/// How an upstream is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum UpstreamApi {
    /// `/v1/chat/completions`: messages and tools, which the server writes as its model wants them.
    #[default]
    Chat,
    /// `/v1/completions`: a transcript as text, by `agent.promptTemplate`.
    Completions,
}

impl UpstreamApi {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How requests are put.
    pub const fn dialect(self) -> TextDialect {
        match self {
            Self::Chat => TextDialect::Chat,
            Self::Completions => TextDialect::Completions,
        }
    }
}

impl Upstream {
    /// The model and its server, as people call them: `qwen3 at llm.example`, as far as a status has room.
    pub fn display_name(&self) -> String {
        let authority = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let host = authority.split(['/', '?', '#']).next().unwrap_or(authority);
        // The schema refuses a user and a password; a status never shows them.
        let host = host.rsplit('@').next().unwrap_or(host);
        format!("{} at {host}", self.model).chars().take(LONGEST_NAME).collect()
    }
}

/// What serves the model that a spec names. One of the two, as the rules of the API have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// An engine that comes from a checkpoint.
    Checkpoint(Checkpoint<'a>),
    /// A server elsewhere.
    Upstream(&'a Upstream),
}

/// A checkpoint, and the engines that come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint<'a> {
    /// Its location.
    pub uri: &'a str,
    /// The Secret that grants access to it.
    pub secret_ref: Option<&'a LocalObjectReference>,
    /// How engines are built and served.
    pub engine: &'a EngineConfiguration,
}

impl AgentDeploymentSpec {
    /// What serves the model. None where the spec breaks the rules of the API.
    pub fn origin(&self) -> Option<Origin<'_>> {
        let ModelSource { uri, secret_ref, upstream } = &self.model;
        match (uri, &self.engine, upstream) {
            (_, _, Some(upstream)) => Some(Origin::Upstream(upstream)),
            (Some(uri), Some(engine), None) => {
                Some(Origin::Checkpoint(Checkpoint { uri, secret_ref: secret_ref.as_ref(), engine }))
            }
            (None, _, None) | (_, None, None) => None,
        }
    }

    /// The checkpoint, if engines serve it.
    pub fn checkpoint(&self) -> Option<Checkpoint<'_>> {
        match self.origin()? {
            Origin::Checkpoint(checkpoint) => Some(checkpoint),
            Origin::Upstream(_) => None,
        }
    }

    /// The upstream, if one has the model.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self.origin()? {
            Origin::Checkpoint(_) => None,
            Origin::Upstream(upstream) => Some(upstream),
        }
    }
}

/// The rule of a spec that a checkpoint has an engine.
pub(super) fn has_engine() -> Rule {
    Rule::new("has(self.engine) || has(self.model.upstream)")
        .message(
            "engine is required for the checkpoint of model.uri: add it, or name a server that has the model in \
                  model.upstream",
        )
        .field_path(".engine")
}

/// A field of a spec that an upstream leaves no use for: when it is absent, and what to do about it.
pub(super) struct Unused {
    field: &'static str,
    is_absent: &'static str,
    message: &'static str,
}

pub(super) const ENGINE: Unused = Unused {
    field: ".engine",
    is_absent: "!has(self.engine)",
    message: "no engine serves the model of model.upstream: remove engine",
};
pub(super) const PROFILING: Unused = Unused {
    field: ".profiling",
    is_absent: "!has(self.profiling)",
    message: "profiling measures engines, and model.upstream needs none: remove profiling",
};
pub(super) const SEARCH: Unused = Unused {
    field: ".search",
    is_absent: "!has(self.search) || !(has(self.search.precision) || has(self.search.kvCachePrecision) || \
                has(self.search.tensorParallel) || has(self.search.pipelineParallel) || \
                has(self.search.maxBatchSize) || has(self.search.maxNumTokens) || has(self.search.instances) || \
                has(self.search.parameters) || has(self.search.gpuProducts)) && (!has(self.search.concurrency) || \
                size(self.search.concurrency) == 3 && self.search.concurrency.all(n, n in [1, 4, 8]))",
    message: "search chooses among engines, and model.upstream needs none: remove search, and say how many runs a pod \
              admits in model.upstream.maxInFlight",
};
pub(super) const QUALITY: Unused = Unused {
    field: ".slo.quality",
    is_absent: "!has(self.slo) || !has(self.slo.quality)",
    message: "slo.quality compares engines, and model.upstream needs none: remove slo.quality",
};
pub(super) const MEASURED: Unused = Unused {
    field: ".slo",
    is_absent: "!has(self.slo) || !(has(self.slo.throughput) || has(self.slo.cost) || has(self.slo.optimizeFor) || \
                has(self.slo.onInfeasible))",
    message: "throughput, cost, optimizeFor and onInfeasible are for measured engines, and model.upstream needs none: \
              remove them from slo",
};
pub(super) const PREFLIGHT: Unused = Unused {
    field: ".serving.preflight",
    is_absent: "!has(self.serving) || !has(self.serving.preflight)",
    message: "pods that ask model.upstream have no GPUs to check: remove serving.preflight",
};
pub(super) const RESOURCES: Unused = Unused {
    field: ".serving.tritonResources",
    is_absent: "!has(self.serving) || !has(self.serving.tritonResources) || \
                !(has(self.serving.tritonResources.requests) || has(self.serving.tritonResources.limits))",
    message: "pods that ask model.upstream have no server: remove serving.tritonResources, or use \
              serving.agentResources",
};
pub(super) const DIALECT: Unused = Unused {
    field: ".agent.toolCallDialect",
    is_absent: "!has(self.agent.toolCallDialect) || has(self.model.upstream.api) && \
                self.model.upstream.api == 'Completions' && self.agent.toolCallDialect == 'ReAct'",
    message: "the server of model.upstream reads what its model writes: remove agent.toolCallDialect",
};
pub(super) const TOP_K: Unused = Unused {
    field: ".agent.sampling",
    is_absent: "!has(self.agent.sampling) || !has(self.agent.sampling.topK)",
    message: "the API of model.upstream has no topK: remove agent.sampling.topK",
};

impl Unused {
    /// The rule of a spec that it does not say this where an upstream has the model.
    pub(super) fn rule(self) -> Rule {
        let Self { field, is_absent, message } = self;
        Rule::new(format!("!has(self.model.upstream) || ({is_absent})")).message(message).field_path(field)
    }
}

/// The rule of a spec that the server of a chat writes the prompts.
pub(super) fn writes_no_prompt_of_a_chat() -> Rule {
    Rule::new(
        "!has(self.model.upstream) || !has(self.agent.promptTemplate) || has(self.model.upstream.api) && \
         self.model.upstream.api == 'Completions'",
    )
    .message(
        "the server of a chat writes the prompt: remove agent.promptTemplate, or set model.upstream.api to \
              Completions",
    )
    .field_path(".agent.promptTemplate")
}

fn default_max_in_flight() -> i32 {
    64
}

fn default_retries() -> i32 {
    2
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://llm.example", "qwen3 at llm.example")]
    #[case("http://vllm.team.svc:8000/", "qwen3 at vllm.team.svc:8000")]
    #[case("https://llm.example/openai?x", "qwen3 at llm.example")]
    #[case("https://user:p@ss@llm.example/openai", "qwen3 at llm.example")]
    fn an_upstream_is_called_by_its_model_and_its_host(#[case] url: &str, #[case] expected: &str) {
        let upstream: Upstream =
            serde_json::from_value(serde_json::json!({"url": url, "model": "qwen3"})).expect("an upstream");
        assert_eq!(upstream.display_name(), expected);
    }
}
