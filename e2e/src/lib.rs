//! Scenarios on a real cluster, the test servers they use, and traffic.

pub mod agents;
pub mod autoscaler;
pub mod builder;
pub mod campaigns;
pub mod checkpoints;
pub mod cluster;
pub mod credentials;
pub mod drift;
pub mod faults;
pub mod gitops;
pub mod load;
pub mod metrics_server;
pub mod namespace;
pub mod operator;
pub mod plugin;
pub mod policy_enforcer;
pub mod repository;
pub mod rollouts;
pub mod servers;
pub mod slow_node;
pub mod store;
pub mod stranger;
pub mod traffic;
