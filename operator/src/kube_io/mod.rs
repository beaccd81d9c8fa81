//! Everything that talks to the API server on behalf of the planners. Reads and writes IO.

pub mod applied;
pub mod apply;
pub mod cache;
pub mod client;
pub mod deadline;
pub mod difference;
pub mod events;
pub mod jobs;
pub mod looked;
mod memo;
pub mod neighbours;
pub mod read;
pub mod record;
pub mod undeclared;
