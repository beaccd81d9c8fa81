//! Everything that talks to the API server on behalf of the planners. Reads and writes IO.

pub mod apply;
pub mod client;
pub mod deadline;
pub mod difference;
pub mod events;
pub mod jobs;
pub mod neighbours;
pub mod read;
pub mod record;
pub mod undeclared;
