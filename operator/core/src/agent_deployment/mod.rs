//! What comes next for an AgentDeployment. Each phase has a module: [`resolve`] for references, [`engines`] for builds
//! and their quality, [`profiling`] for the choice, [`rollout`] for its rollout, and [`monitoring`] for what is
//! watched. Pure.
//!
//! Each phase holds its planners, and in `build` the objects that they ask for, one kind a file. [`decide`] runs the
//! phases.

pub mod at_once;
pub mod commands;
pub mod decide;
pub mod defaults;
pub mod engine_users;
pub mod engines;
mod facts;
pub mod figures;
mod job_step;
mod judge_config;
mod metadata;
pub mod monitoring;
pub mod outcome;
mod parts;
mod pipeline;
pub mod preflight;
mod prepare;
pub mod profiling;
pub mod resolve;
pub mod rollout;
pub mod status;
pub mod task;
pub mod wakes;
pub mod world;

#[cfg(test)]
mod tests;
