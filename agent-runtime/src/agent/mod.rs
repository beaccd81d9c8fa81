//! Agent runs: how prompts are written and turns are read, the pure loop, and the driver that does what the loop
//! decides.
//!
//! Reading order: [`grammar`], [`wishes`], [`conversation`], [`prompt`], [`dialect`], [`marks`], [`chat`], [`state`],
//! [`room`], [`transcript`], [`step`](mod@step), [`timings`], [`driver`].

pub mod chat;
pub mod conversation;
mod current_prompts;
pub mod dialect;
pub mod driver;
pub mod grammar;
pub mod marks;
pub mod opening;
pub mod places;
pub mod prompt;
pub mod rehearsal;
pub mod room;
pub mod state;
pub mod step;
pub mod timings;
mod tool_list;
pub mod transcript;
pub mod wishes;

pub use chat::ChatFormat;
pub use conversation::{Conversation, ConversationError, Message, Role, Turn};
pub use current_prompts::CurrentPrompts;
pub use driver::{Agent, RunEvent, RunRequest, Usage};
pub use grammar::Observation;
pub use prompt::Prompts;
pub use rehearsal::Rehearsal;
pub use state::{CallId, Failure, Limits, Opening, Outcome, SideEffects, State};
pub use wishes::{AnswerFormat, ClientCall, ClientTool, ToolChoice, Wishes};
