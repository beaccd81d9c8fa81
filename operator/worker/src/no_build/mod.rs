//! Engines without a build: the serving repository is written around the checkpoint, and both become one artifact.
//!
//! `assemble` writes the repository in the vendor's own image, so that an image without the backend is found out before
//! an engine counts as built. The checkpoint is not copied there: `finish-build` adds it from the store.

mod assemble;
mod checkpoint;

pub use assemble::{AssembleError, Parts, run};
pub use checkpoint::{Checkpoint, CheckpointError};
