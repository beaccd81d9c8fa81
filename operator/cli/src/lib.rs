//! Slipway from the command line.
//!
//! The output is made by pure functions of what was read: [`overview`], [`candidates`], [`mod@explain`], [`progress`],
//! [`mod@outlook`], [`mod@arms`], [`conversation`], [`report`], [`decision`], [`mod@store`], [`mod@check`] and
//! [`mod@demand`].
//! [`cluster`] does the IO, and [`args`] and [`wait`] put the two together.

pub mod args;
pub mod arms;
pub mod candidates;
pub mod check;
pub mod cluster;
pub mod conversation;
pub mod decision;
pub mod demand;
pub mod explain;
pub mod failure;
pub mod measured;
pub mod outlook;
pub mod overview;
pub mod progress;
pub mod report;
pub mod rollout;
pub mod store;
pub mod study;
pub mod table;
pub mod wait;
