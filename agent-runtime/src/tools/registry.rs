//! The tools of one agent, by name: those of its configuration, and those of its servers as they are now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use futures::future::join_all;
use slipway_runtime_config::{McpServer, Schema, Tool, ToolKind};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{outbound::Lookup, trace_context::TraceContext};

use super::{
    calculator::{self, CalculatorError},
    http::{HttpTool, HttpToolError, PrepareHttpToolError},
    mcp::{Listing, McpError, Remote, Server},
    service::PrepareServiceError,
    shown::ShownTool,
};

/// The tools an agent may call.
#[derive(Debug)]
pub struct Registry {
    fixed: Vec<Entry>,
    servers: Vec<Arc<Server>>,
    known: RwLock<Known>,
}

/// A call to be made.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The tool.
    pub name: &'a str,
    /// What the model wrote between the brackets.
    pub input: &'a str,
    /// The span that the tool works in, where runs are traced.
    pub trace: Option<&'a TraceContext>,
    /// When nobody needs the result any more. No attempt begins after that.
    pub until: Option<Instant>,
}

impl<'a> Request<'a> {
    /// A call of this tool, in no trace and with all the time there is.
    pub fn new(name: &'a str, input: &'a str) -> Self {
        Self { name, input, trace: None, until: None }
    }
}

/// How a record can answer a call again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It need not: the agent finds the result by itself.
    Itself,
    /// By the call's arguments, as texts.
    By(BTreeMap<String, String>),
    /// It cannot.
    Never,
}

/// What an agent's tools are made from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Those of the configuration.
    pub tools: &'a [Tool],
    /// Servers of further ones.
    pub servers: &'a [McpServer],
    /// Finds the addresses of services.
    pub lookup: &'a Lookup,
}

/// The tools as they are now.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    implementations: BTreeMap<String, Implementation>,
    /// As a model is shown them, in the order of the configuration.
    pub shown: Vec<ShownTool>,
    /// Their names.
    pub names: Arc<BTreeSet<String>>,
}

/// What is known of the servers' tools.
#[derive(Debug)]
struct Known {
    catalog: Arc<Catalog>,
    /// Why not all tools were known yet, if that is so.
    missing: Option<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    shown: ShownTool,
    implementation: Implementation,
    /// Where it is from, for messages.
    origin: String,
}

#[derive(Clone, Debug)]
enum Implementation {
    Calculator,
    Http(Arc<HttpTool>),
    Mcp { server: Arc<Server>, tool: Arc<Remote> },
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
    /// The call of a server's tool failed.
    #[error("no result")]
    Mcp(#[source] McpError),
}

impl ToolError {
    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_tool",
            Self::Calculator(_) => "calculation",
            Self::Http(error) => error.kind(),
            Self::Mcp(error) => error.kind(),
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
            Self::Mcp(error) => error.to_string(),
        }
    }
}

/// Why a tool could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum PrepareToolError {
    /// A tool of the configuration.
    #[error("failed to set up tool {tool:?}")]
    Http {
        /// Its name.
        tool: String,
        /// What is wrong with it.
        #[source]
        source: PrepareHttpToolError,
    },
    /// A server.
    #[error("failed to set up MCP server {server:?}")]
    Mcp {
        /// Its name.
        server: String,
        /// What is wrong with it.
        #[source]
        source: PrepareServiceError,
    },
}

/// Two tools have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "two tools are called {name:?}: {first} and {second}; change the prefix of a server, or name its tools in tools"
)]
struct NameTwiceError {
    name: String,
    first: String,
    second: String,
}

impl Registry {
    /// Sets up the tools of a configuration without servers; nothing is called yet.
    ///
    /// # Errors
    /// The tool whose URL or client cannot be used.
    pub fn new(tools: &[Tool]) -> Result<Self, PrepareToolError> {
        Self::of(Sources { tools, servers: &[], lookup: &Lookup::of_system() })
    }

    /// Sets up every tool and server; nothing is called yet. Tools of servers are known once [`Self::watch`] has asked
    /// for them.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn of(Sources { tools, servers, lookup }: Sources<'_>) -> Result<Self, PrepareToolError> {
        let fixed: Vec<Entry> = tools.iter().map(|tool| Entry::of(tool, lookup)).collect::<Result<_, _>>()?;
        let set_up = |config: &McpServer| match Server::new(config, lookup) {
            Ok(server) => Ok(Arc::new(server)),
            Err(source) => Err(PrepareToolError::Mcp { server: config.name.clone(), source }),
        };
        let servers: Vec<_> = servers.iter().map(set_up).collect::<Result<_, _>>()?;
        let missing = servers.first().and_then(|server| server.listing().err());
        let catalog = Arc::new(Catalog::new(fixed.clone()));
        Ok(Self { fixed, servers, known: RwLock::new(Known { catalog, missing }) })
    }

    /// The tools as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner).catalog)
    }

    /// Why not all tools were known yet; nothing once they were.
    pub fn missing(&self) -> Option<String> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).missing.clone()
    }

    /// Whether there are servers, so that tools may change.
    pub fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Keeps the lists of all servers until `stop`, and hands out each new catalog before it counts. One that cannot be
    /// taken changes nothing.
    pub async fn watch(&self, take: impl Fn(&Catalog) -> Result<(), String>, stop: CancellationToken) {
        let news = Notify::new();
        let listing = join_all(self.servers.iter().map(|server| server.keep_listed(&news)));
        let joining = async {
            loop {
                news.notified().await;
                self.join(&take);
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = listing => {}
            () = joining => {}
        }
        join_all(self.servers.iter().map(|server| server.leave())).await;
    }

    fn join(&self, take: impl Fn(&Catalog) -> Result<(), String>) {
        let joined = self.joined().and_then(|catalog| take(&catalog).map(|()| catalog));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match joined {
            Ok(catalog) => *known = Known { catalog: Arc::new(catalog), missing: None },
            Err(why) => {
                tracing::warn!(why, "the agent's tools stay as they are");
                if known.missing.is_some() {
                    known.missing = Some(why);
                }
            }
        }
    }

    fn joined(&self) -> Result<Catalog, String> {
        let listings: Vec<Arc<Listing>> =
            self.servers.iter().map(|server| server.listing()).collect::<Result<_, _>>()?;
        let of_servers = self.servers.iter().zip(&listings).flat_map(|(server, listing)| {
            listing.tools.iter().map(|tool| Entry::of_server(server, tool)).collect::<Vec<_>>()
        });
        let entries: Vec<Entry> = self.fixed.iter().cloned().chain(of_servers).collect();
        distinct(&entries).map_err(|error| error.to_string())?;
        Ok(Catalog::new(entries))
    }

    /// Whether there is a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        self.catalog().implementations.contains_key(name)
    }

    /// Whether a call of this name does no harm when it is made twice. A name without a tool calls nothing.
    pub fn is_repeatable(&self, name: &str) -> bool {
        match self.catalog().implementations.get(name) {
            Some(Implementation::Http(tool)) => tool.is_idempotent(),
            Some(Implementation::Mcp { tool, .. }) => tool.is_repeatable,
            Some(Implementation::Calculator) | None => true,
        }
    }

    /// How a record can answer a call again.
    pub fn replay(&self, name: &str, input: &str) -> Replay {
        match self.catalog().implementations.get(name) {
            Some(Implementation::Calculator) => Replay::Itself,
            Some(Implementation::Http(tool)) => tool.arguments(input).map_or(Replay::Never, Replay::By),
            Some(Implementation::Mcp { .. }) | None => Replay::Never,
        }
    }

    /// Calls a tool. Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn call(&self, request: Request<'_>) -> Result<String, ToolError> {
        let Request { name, input, trace: _, until: _ } = request;
        let catalog = self.catalog();
        match catalog.implementations.get(name) {
            Some(Implementation::Calculator) => calculator::evaluate(input).map_err(ToolError::Calculator),
            Some(Implementation::Http(tool)) => tool.call(request).await.map_err(ToolError::Http),
            Some(Implementation::Mcp { server, tool }) => server.call(tool, request).await.map_err(ToolError::Mcp),
            None => Err(ToolError::Unknown { name: name.into(), known: catalog.known() }),
        }
    }
}

impl Catalog {
    fn new(entries: Vec<Entry>) -> Self {
        let names = entries.iter().map(|entry| entry.shown.name.clone()).collect();
        let shown = entries.iter().map(|entry| entry.shown.clone()).collect();
        let implementations = entries.into_iter().map(|entry| (entry.shown.name, entry.implementation)).collect();
        Self { implementations, shown, names: Arc::new(names) }
    }

    /// One line per tool, in the order of the configuration.
    pub fn listing(&self) -> String {
        self.shown.iter().map(ShownTool::line).collect::<Vec<_>>().join("\n")
    }

    fn known(&self) -> String {
        match self.names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => "none".into(),
            names => names.join(", "),
        }
    }
}

impl Entry {
    fn of(tool: &Tool, lookup: &Lookup) -> Result<Self, PrepareToolError> {
        let implementation = match &tool.kind {
            ToolKind::Calculator => Implementation::Calculator,
            ToolKind::Http(http) => HttpTool::new(http, schema(tool).as_ref(), lookup)
                .map(|tool| Implementation::Http(Arc::new(tool)))
                .map_err(|source| PrepareToolError::Http { tool: tool.name.clone(), source })?,
        };
        let origin = format!("the agent's own {:?}", tool.name);
        Ok(Self { shown: ShownTool::from(tool), implementation, origin })
    }

    fn of_server(server: &Arc<Server>, tool: &Remote) -> Self {
        Self {
            shown: tool.shown.clone(),
            origin: format!("{:?} of MCP server {:?}", tool.name(), server.name()),
            implementation: Implementation::Mcp { server: Arc::clone(server), tool: Arc::new(tool.clone()) },
        }
    }
}

fn distinct(entries: &[Entry]) -> Result<(), NameTwiceError> {
    let mut seen = BTreeMap::new();
    for Entry { shown, origin, .. } in entries {
        if let Some(first) = seen.insert(&shown.name, origin) {
            let (first, second) = (first.clone(), origin.clone());
            return Err(NameTwiceError { name: shown.name.clone(), first, second });
        }
    }
    Ok(())
}

/// The schema of a tool; the configuration has refused one that cannot be used.
fn schema(tool: &Tool) -> Option<Schema> {
    tool.input_schema.as_ref().and_then(|written| Schema::of_tool(written).ok())
}
