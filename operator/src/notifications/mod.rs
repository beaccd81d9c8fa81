//! Notifications: Slack, PagerDuty and webhooks are told what happens to AgentDeployments.
//!
//! Planners announce, as data in their plan. Once the status that records it is written, an announcement is put into
//! the outbox of each receiver and the reconciliation goes on: it never waits for anybody's server. One task delivers.
//! What is sent when, and what is dropped, and what is sent, is decided by the core; [`deliver`] has the clock, the
//! dice and the connections.

pub mod deliver;
pub mod receiver;
