//! Slipway from the command line.
//!
//! The output is made by pure functions of what was read: [`overview`], [`candidates`], [`mod@explain`], [`progress`],
//! [`mod@outlook`], [`mod@arms`], [`conversation`], [`report`], [`decision`], [`mod@check`], [`mod@demand`],
//! [`mod@memory`], [`mod@init`], [`tree`], and [`view`] for documents ([`output`]). [`mod@store`] is of a whole
//! namespace, and [`mod@record`] of what pods remember. [`cluster`], [`forward`], [`recorder`], [`terminal`],
//! [`answers`], [`live`], [`offline`] and [`wait`] do the IO, and [`args`] chooses among them.

pub mod answers;
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
pub mod forward;
pub mod frame;
pub mod init;
pub mod live;
pub mod measured;
pub mod memory;
mod notes;
pub mod offline;
pub mod outlook;
pub mod output;
pub mod overview;
pub mod progress;
pub mod record;
pub mod recorder;
pub mod refusals;
pub mod report;
pub mod revisions;
pub mod rollout;
pub mod store;
pub mod study;
pub mod table;
pub mod terminal;
pub mod tree;
pub mod view;
pub mod wait;
pub mod watched;
