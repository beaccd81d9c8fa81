//! Jobs: what is seen of them and of serving pods, when one is tried again, the template they share, and the Triton
//! that some have beside them.

pub mod attempts;
pub mod kind;
pub mod preflight;
pub mod refused;
pub mod resources;
pub mod task;
pub mod template;
pub mod triton;
pub mod view;
