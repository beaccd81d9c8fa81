//! The controller of Engines: builds each once, with a record of every attempt.

pub mod build;
pub mod decide;
pub mod no_build;
pub mod reconcile;
pub mod status;
pub mod tensorrt_llm;
