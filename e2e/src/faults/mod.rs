//! Faults as a cluster has them, and what must hold through all of them.

pub mod control_plane;
pub mod leaders;
pub mod processes;
pub mod told;
pub mod watches;
