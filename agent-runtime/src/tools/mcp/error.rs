//! Why a server of MCP gave nothing. Pure.

use std::time::Duration;

use crate::tools::service::{self, Failure, Health, ServiceError};

use super::{listing::ListingError, message::RpcError};

/// Characters of a server's words that are shown.
const MAX_WORDS: usize = 500;

/// Why a server gave nothing. Written for the model, which reads it as an observation.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// What the model wrote does not fit the tool.
    #[error("wrong arguments: {problem}")]
    Arguments {
        /// What is wrong.
        problem: String,
    },
    /// The service gave no answer.
    #[error(transparent)]
    Service(ServiceError),
    /// It does not do what it was asked.
    #[error("{}{}", refusal(*status, error.as_ref()), service::shown_pause(*retry_after))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says.
        error: Option<RpcError>,
        /// When it wants to be asked again, if it says so.
        retry_after: Option<Duration>,
    },
    /// It speaks something else.
    #[error("the server's answer is not MCP: {problem}")]
    NotMcp {
        /// What is wrong with it.
        problem: String,
    },
    /// The stream of its answer ended without one.
    #[error("the server ended its answer too early")]
    EndedEarly,
    /// Other revisions of the protocol.
    #[error("the server speaks other versions of MCP: {theirs}")]
    Versions {
        /// Those that it names.
        theirs: String,
    },
    /// Its list of tools.
    #[error(transparent)]
    Listing(ListingError),
    /// The tool asks back.
    #[error("the tool asks for the answer of a person, and nobody is there to give it")]
    InputRequired,
    /// The tool's own error.
    #[error("{text}")]
    Tool {
        /// What it says.
        text: String,
    },
}

impl McpError {
    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Arguments { .. } => "arguments",
            Self::Service(error) => error.kind(),
            Self::Refused { error: Some(_), .. } => "refused",
            Self::Refused { error: None, .. } => "status",
            Self::NotMcp { .. } | Self::EndedEarly | Self::Versions { .. } | Self::Listing(_) => "answer",
            Self::InputRequired => "input_required",
            Self::Tool { .. } => "tool",
        }
    }
}

impl From<ServiceError> for McpError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Failure for McpError {
    fn health(&self) -> Health {
        match self {
            Self::Service(error) => error.health(),
            Self::Refused { status, .. } => service::health_of(*status),
            Self::EndedEarly => Health::Failed,
            Self::Arguments { .. } => Health::Unknown,
            Self::NotMcp { .. }
            | Self::Versions { .. }
            | Self::Listing(_)
            | Self::InputRequired
            | Self::Tool { .. } => Health::Good,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Service(error) => error.is_transient(),
            Self::Refused { status, .. } => service::is_transient_status(*status),
            Self::EndedEarly => true,
            Self::Arguments { .. }
            | Self::NotMcp { .. }
            | Self::Versions { .. }
            | Self::Listing(_)
            | Self::InputRequired
            | Self::Tool { .. } => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Arguments { .. }
            | Self::Service(_)
            | Self::NotMcp { .. }
            | Self::EndedEarly
            | Self::Versions { .. }
            | Self::Listing(_)
            | Self::InputRequired
            | Self::Tool { .. } => None,
        }
    }
}

/// One line of the server's words, or the status where it has none.
fn refusal(status: u16, error: Option<&RpcError>) -> String {
    let words = error.map(|error| error.message.split_whitespace().collect::<Vec<_>>().join(" "));
    match words.filter(|words| !words.is_empty()) {
        Some(words) => format!("the server refuses: {}", words.chars().take(MAX_WORDS).collect::<String>()),
        None => format!("HTTP status {status}"),
    }
}
