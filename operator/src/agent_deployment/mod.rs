//! The controller of AgentDeployments: observe -> decide -> build -> apply -> record.

pub mod budget;
pub mod build;
pub mod decide;
pub mod drift;
pub mod evidence;
pub mod guardrails;
pub mod load;
pub mod objectives;
pub mod observe;
pub mod reconcile;
pub mod revision;
pub mod scaling;
pub mod schedule;
pub mod status;
pub mod world;
