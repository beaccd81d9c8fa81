//! Slipway from the command line.
//!
//! What is shown is made by pure functions of what was read ([`overview`], [`progress`], [`conversation`]);
//! [`cluster`] reads and writes IO, and [`args`] and [`wait`] put the two together.

pub mod args;
pub mod cluster;
pub mod conversation;
pub mod measured;
pub mod overview;
pub mod progress;
pub mod table;
pub mod wait;
