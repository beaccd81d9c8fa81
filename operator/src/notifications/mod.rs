//! Notifications: Slack, PagerDuty and webhooks are told what happens to AgentDeployments.
//!
//! Planners announce ([`happening`]), as data in their plan. Once the status that records it is written, an announcement is put
//! into the outbox of each receiver and the reconciliation goes on: it never waits for anybody's server. One task delivers. What
//! is sent when, and what is dropped, is decided by [`decide`] and what is sent by [`build`], which are pure; [`deliver`] has the
//! clock, the dice and the connections.

pub mod build;
pub mod credentials;
pub mod decide;
pub mod deliver;
pub mod happening;
pub mod receiver;
