//! A node whose GPUs are refused before a server starts. Pure.

use std::fmt;

/// GPUs that a pod's checks refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedGpus {
    /// Hash of the revision's plan.
    pub revision: String,
    /// The pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// What is wrong with the GPUs, and the remedies.
    pub problems: String,
}

impl fmt::Display for RefusedGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, pod, node, problems } = self;
        write!(
            f,
            "revision {revision} does not start on node {node}, whose GPUs its preflight refuses: {problems}. Pod {pod} \
             tries again; to have it elsewhere, cordon the node and delete the pod"
        )
    }
}
