//! Engines: each is built once, with a record of every attempt. Pure.

pub mod build;
pub mod decide;
pub mod lost;
pub mod no_build;
pub mod status;
pub mod tensorrt_llm;
mod unused;
pub mod world;
