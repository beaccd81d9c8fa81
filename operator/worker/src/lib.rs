//! The static binary that runs in Jobs: resolve, fetch, build steps, quality, profile, report.
//!
//! Each verb is a module with a pure core and thin IO; every file-system root is an argument, so that a verb runs
//! anywhere. What a verb reports goes through [`failure::Classify`] into a termination message.

pub mod cli;
pub mod download;
pub mod entry;
pub mod failure;
pub mod fetch;
pub mod finish_build;
pub mod hash;
pub mod http;
pub mod install;
pub mod lock;
pub mod materialize;
pub mod no_build;
pub mod parallel;
pub mod profile;
pub mod quality;
pub mod report;
pub mod repository;
pub mod resolve;
pub mod source;
pub mod supervise;
pub mod sweep;
pub mod tensorrt_llm;
pub mod transfer;
pub mod tree;
mod whole_file;
