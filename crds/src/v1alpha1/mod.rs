//! Version v1alpha1 of the group.

pub mod agent_deployment;
pub mod engine;
pub mod profile;
pub mod shared;

pub use agent_deployment::{AgentDeployment, AgentDeploymentSpec, AgentDeploymentStatus};
pub use engine::{Engine, EngineSpec, EngineStatus};
pub use profile::{Profile, ProfileSpec, ProfileStatus};
