//! The layouts of serving pods, so that another version of the operator restarts none. Pure.
//!
//! A revision's plan records the layout of its pods, and the builders keep making that layout. A changed template would
//! replace all pods of stable, and no canary would judge it. New plans have [`Layout::CURRENT`]. So a change to the
//! pods arrives with the next revision, and is judged with it.
//!
//! To change the pods, add a version, branch on it in `build/pod.rs`, and let [`Layout::CURRENT`] be it. What older
//! versions say stays: their pods are golden in `operator/core/tests/snapshots`.

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::{Deserialize, Serialize};
use slipway_backends::triton;
use slipway_crds::v1alpha1::{
    agent_deployment::{LatencyMetric, WrittenObjective},
    shared::ContainerResources,
};

use crate::jobs::resources::{PREFLIGHT, SIDECAR, STDIO, STDIO_STORAGE, bounded, bounded_sidecar, devices};

/// How the pods of a revision are made. Absent in a plan means the first, as plans from before there was a second say
/// nothing. A version that is not known here makes the whole record unreadable: its pods stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// Triton listens on all addresses, and the memory that processes share has no limit of its own.
    #[default]
    V1,
    /// Triton listens on loopback and keeps its control APIs shut, and the memory that processes share is bounded.
    V2,
    /// The same, and prompts are written by the checkpoint's chat template where the agent names nothing else.
    V3,
    /// The same, and Triton tells the sidecar the configuration of its model.
    V4,
    /// The same, and the sidecar's memory is bounded where the agent says nothing of it.
    V5,
    /// The same, and so are the processors of what we add, and all resources of the container that checks GPUs.
    V6,
}

impl Layout {
    /// The layout of new plans.
    pub const CURRENT: Self = Self::V6;

    /// Whether it is the one that a plan leaves out.
    pub fn is_first(&self) -> bool {
        *self == Self::V1
    }

    /// Objectives as the agent runtime of such pods understands them. Those before the third layout end with an error
    /// at a metric that they do not know, and call the first token of the worst request `TimeToFirstToken`. Of two
    /// objectives that they would take for the same, the one of that name stays.
    pub fn objectives(self, objectives: &[WrittenObjective]) -> Vec<WrittenObjective> {
        match self {
            Self::V1 | Self::V2 => objectives.iter().filter_map(|objective| for_older(objective, objectives)).collect(),
            Self::V3 | Self::V4 | Self::V5 | Self::V6 => objectives.to_vec(),
        }
    }

    /// Whether an agent that names no prompt has its checkpoint's chat template.
    pub fn prompts_by_chat_template(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 | Self::V4 | Self::V5 | Self::V6 => true,
        }
    }

    /// What the sidecar's container requests and may use.
    pub fn sidecar_resources(self, resources: &ContainerResources) -> ResourceRequirements {
        match self {
            Self::V1 | Self::V2 | Self::V3 | Self::V4 => resources.to_requirements(),
            Self::V5 => bounded(resources, &[SIDECAR.memory]),
            Self::V6 => bounded_sidecar(resources),
        }
    }

    /// The same of a server of tools on standard input.
    pub fn stdio_resources(self, resources: &ContainerResources) -> ResourceRequirements {
        match self {
            Self::V1 | Self::V2 | Self::V3 | Self::V4 | Self::V5 => bounded(resources, &[STDIO.memory, STDIO_STORAGE]),
            Self::V6 => bounded(resources, &[STDIO.memory, STDIO.cpu, STDIO_STORAGE]),
        }
    }

    /// The same of the checks of GPUs, which need the GPUs of the container that serves.
    pub fn preflight_resources(self, of_server: &ContainerResources) -> ResourceRequirements {
        match self {
            Self::V1 | Self::V2 | Self::V3 | Self::V4 | Self::V5 => of_server.to_requirements(),
            Self::V6 => bounded(&devices(of_server), &[PREFLIGHT.memory, PREFLIGHT.cpu]),
        }
    }

    /// Arguments that say who reaches a pod's Triton.
    pub fn triton_arguments(self) -> Vec<String> {
        match self {
            Self::V1 => Vec::new(),
            Self::V2 | Self::V3 => [triton::on_loopback(), triton::only_inference()].concat(),
            Self::V4 | Self::V5 | Self::V6 => {
                [triton::on_loopback(), triton::only_inference_and_configuration()].concat()
            }
        }
    }
}

fn for_older(objective: &WrittenObjective, all: &[WrittenObjective]) -> Option<WrittenObjective> {
    if objective.metric != LatencyMetric::RequestTimeToFirstToken {
        return Some(objective.clone());
    }
    let metric = LatencyMetric::TimeToFirstToken;
    let is_taken = all.iter().any(|other| (other.metric, other.percentile) == (metric, objective.percentile));
    (!is_taken).then(|| WrittenObjective { metric, ..objective.clone() })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_crds::values::Percentile;

    use super::*;

    #[test]
    fn a_runtime_of_an_older_layout_is_told_of_no_metric_that_it_does_not_know() {
        let objective = |name: &str, metric, percentile| WrittenObjective {
            name: name.to_owned(),
            metric,
            percentile,
            max: "1s".parse().expect("a duration"),
        };
        let objectives = [
            objective("user", LatencyMetric::TimeToFirstToken, Percentile::P95),
            objective("request", LatencyMetric::RequestTimeToFirstToken, Percentile::P50),
            objective("tail", LatencyMetric::RequestTimeToFirstToken, Percentile::P95),
        ];
        let expected = [
            objective("user", LatencyMetric::TimeToFirstToken, Percentile::P95),
            objective("request", LatencyMetric::TimeToFirstToken, Percentile::P50),
        ];
        assert_eq!(Layout::V1.objectives(&objectives), expected);
        assert_eq!(Layout::V2.objectives(&objectives), expected);
        assert_eq!(Layout::V3.objectives(&objectives), objectives);
        assert_eq!(Layout::V4.objectives(&objectives), objectives);
        assert_eq!(Layout::V5.objectives(&objectives), objectives);
        assert_eq!(Layout::V6.objectives(&objectives), objectives);
    }
}
