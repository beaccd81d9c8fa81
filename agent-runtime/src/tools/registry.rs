//! The tools of one agent, by name.

use std::collections::BTreeMap;

use slipway_runtime_config::{Schema, Tool, ToolKind};

use super::{
    calculator::{self, CalculatorError},
    http::{HttpTool, HttpToolError, PrepareHttpToolError},
    service::Lookup,
};

/// The tools an agent may call. A closed set: what a name does is fixed at start.
#[derive(Debug)]
pub struct Registry {
    tools: BTreeMap<String, Implementation>,
    listing: String,
}

#[derive(Debug)]
enum Implementation {
    Calculator,
    Http(Box<HttpTool>),
}

/// Why a call gave no result. All of these are told to the model; none ends a run.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model named a tool that does not exist.
    #[error("unknown tool {name:?}; the tools are {known}")]
    Unknown {
        /// What the model wrote.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The calculator could not evaluate.
    #[error("no result")]
    Calculator(#[source] CalculatorError),
    /// The HTTP call failed.
    #[error("no result")]
    Http(#[source] HttpToolError),
}

impl ToolError {
    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_tool",
            Self::Calculator(_) => "calculation",
            Self::Http(error) => error.kind(),
        }
    }

    /// What the model is told: the cause in one line, without addresses or the transport's details.
    pub fn observation(&self) -> String {
        match self {
            Self::Unknown { .. } => self.to_string(),
            Self::Calculator(error) => error.to_string(),
            Self::Http(error @ HttpToolError::Arguments(cause)) => format!("{error}: {cause}"),
            Self::Http(error @ HttpToolError::Url(cause)) => format!("{error}: {cause}"),
            Self::Http(error) => error.to_string(),
        }
    }
}

/// Why a tool could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up tool {tool:?}")]
pub struct PrepareToolError {
    tool: String,
    #[source]
    source: PrepareHttpToolError,
}

impl Registry {
    /// Sets up every tool; nothing is called yet.
    ///
    /// # Errors
    /// The tool whose URL or client cannot be used.
    pub fn new(tools: &[Tool]) -> Result<Self, PrepareToolError> {
        Self::with_lookup(tools, &Lookup::of_system())
    }

    /// The same, with another way to find the addresses of services.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_lookup(tools: &[Tool], lookup: &Lookup) -> Result<Self, PrepareToolError> {
        let prepare = |tool: &Tool| {
            let implementation = match &tool.kind {
                ToolKind::Calculator => Implementation::Calculator,
                ToolKind::Http(http) => HttpTool::new(http, schema(tool).as_ref(), lookup)
                    .map(|tool| Implementation::Http(Box::new(tool)))
                    .map_err(|source| PrepareToolError { tool: tool.name.clone(), source })?,
            };
            Ok((tool.name.clone(), implementation))
        };
        let listing: Vec<_> = tools.iter().map(listed).collect();
        Ok(Self { tools: tools.iter().map(prepare).collect::<Result<_, _>>()?, listing: listing.join("\n") })
    }

    /// One line `name: description` (or the name alone) per tool, in the order of the configuration.
    pub fn listing(&self) -> &str {
        &self.listing
    }

    /// Whether there is a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Whether a call of this name does no harm when it is made twice. A name without a tool calls nothing.
    pub fn is_repeatable(&self, name: &str) -> bool {
        match self.tools.get(name) {
            Some(Implementation::Http(tool)) => tool.is_idempotent(),
            Some(Implementation::Calculator) | None => true,
        }
    }

    /// Calls a tool with what the model wrote between the brackets. Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn call(&self, name: &str, input: &str) -> Result<String, ToolError> {
        match self.tools.get(name) {
            Some(Implementation::Calculator) => calculator::evaluate(input).map_err(ToolError::Calculator),
            Some(Implementation::Http(tool)) => tool.call(input).await.map_err(ToolError::Http),
            None => Err(ToolError::Unknown { name: name.into(), known: self.names() }),
        }
    }

    fn names(&self) -> String {
        match self.tools.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => "none".into(),
            names => names.join(", "),
        }
    }
}

/// The schema of a tool; the configuration has refused one that cannot be used.
fn schema(tool: &Tool) -> Option<Schema> {
    tool.input_schema.as_ref().and_then(|written| Schema::of_tool(written).ok())
}

fn listed(tool: &Tool) -> String {
    match tool.description.as_str() {
        "" => tool.name.clone(),
        description => format!("{}: {description}", tool.name),
    }
}
