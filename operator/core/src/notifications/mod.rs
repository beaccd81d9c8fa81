//! Notifications: Slack, PagerDuty and webhooks are told what happens to AgentDeployments. Pure.
//!
//! Planners announce ([`events`]), as data in their plan. What is sent when, and what is dropped, is decided by
//! [`decide`], and what is sent by [`build`]. The shell has the clock, the dice, the credentials and the connections.

pub mod build;
pub mod decide;
pub mod events;
