//! The controller of AgentDeployments: observe -> decide -> build -> apply -> record. The core decides and builds.

pub mod observe;
pub mod reconcile;
mod unready;
