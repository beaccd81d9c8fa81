//! What is watched of an AgentDeployment while it serves: objectives, error budgets, load, drift, the judge
//! itself, and notifications. Pure.

pub mod alerts;
pub mod announcements;
pub mod autoscaling;
pub mod build;
pub mod counted;
pub mod drift;
pub mod error_budget;
pub mod judged_runs;
pub mod load;
pub mod objectives;
pub mod observed_objectives;
pub mod scaling;
pub mod self_check;
pub(super) mod undelivered;
