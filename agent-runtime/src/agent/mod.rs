//! Agent runs: the transcript's grammar, the pure loop, and the driver that does what the loop decides.
//!
//! Reading order: [`grammar`], [`conversation`], [`prompt`], [`state`], [`room`], [`step`](mod@step), [`timings`],
//! [`driver`].

pub mod conversation;
pub mod driver;
pub mod grammar;
pub mod prompt;
pub mod room;
pub mod state;
pub mod step;
pub mod timings;

pub use conversation::{Conversation, ConversationError, Message, Role, Turn};
pub use driver::{Agent, RunEvent, RunRequest};
pub use grammar::Observation;
pub use state::{CallId, Failure, Limits, Outcome, SideEffects, State};
