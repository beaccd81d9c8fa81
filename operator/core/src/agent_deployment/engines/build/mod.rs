//! Engines and the Job of the quality gate, one kind a file. Pure.

pub mod engine;
pub mod quality_job;
