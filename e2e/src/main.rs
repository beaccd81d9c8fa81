//! Test servers for scenarios and the demo, clients of agents, and a builder that goes wrong.

use std::{
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{Parser, Subcommand};
use reqwest::Url;
use slipway_e2e::{
    builder,
    load::{
        client::{self, LoadSettings},
        report::Report,
    },
    servers::{callers, facts, gpus, issuer, mcp, models, receivers, tls::TlsListener},
    traffic::{self, Traffic},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[derive(Debug, Parser)]
#[command(name = "slipway-e2e", version)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Address to listen on.
    #[arg(long, global = true, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Folder with `tls.crt` and `tls.key`; with it a server speaks TLS.
    #[arg(long, global = true)]
    tls: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serves checkpoints, one folder each.
    Models {
        /// Folder with the checkpoints.
        #[arg(long, default_value = "/models")]
        root: PathBuf,
    },
    /// Serves facts for an agent to look up.
    Facts,
    /// Tells what a recorded GPU did, as if it did so now.
    Gpus,
    /// Takes messages as Slack and PagerDuty do, and shows them.
    Receivers,
    /// Sends what it is told to send, and shows the answers.
    Callers,
    /// Publishes the keys of an issuer of tokens.
    Issuer,
    /// Serves a tool by the Model Context Protocol, which looks facts up.
    Mcp {
        /// The server of facts.
        #[arg(long, env = "FACTS")]
        facts: Url,
        /// The header `authorization` of those who may ask.
        #[arg(long, env = "AUTHORIZATION", hide_env_values = true)]
        authorization: String,
    },
    /// Serves the same tool on standard input and output.
    McpStdio {
        /// The server of facts.
        #[arg(long, env = "FACTS")]
        facts: Url,
    },
    /// Sends requests to an agent, until SIGTERM, and counts their results: a line of JSON every ten seconds and at the
    /// end.
    Load(LoadSettings),
    /// Sends recorded questions to an agent.
    Traffic(Traffic),
    /// Writes half a model repository, as a builder with a defect does.
    Build,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { verb, listen, tls } = Args::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    let router = match verb {
        Verb::Models { root } => models::router(root),
        Verb::Facts => facts::router(),
        Verb::Gpus => gpus::router(),
        Verb::Receivers => receivers::router(),
        Verb::Callers => callers::router()?,
        Verb::Issuer => issuer::router(),
        Verb::Mcp { facts, authorization } => mcp::router(mcp::Facts::at(facts)?, authorization),
        Verb::McpStdio { facts } => return Ok(mcp::on_standard_streams(mcp::Facts::at(facts)?).await?),
        Verb::Load(settings) => return Ok(client::run(settings, stop, print).await?),
        Verb::Traffic(traffic) => return Ok(traffic::send(traffic).await?),
        Verb::Build => return Ok(builder::build_half(Path::new(builder::OUTPUT))?),
    };
    let listener = TcpListener::bind(listen).await?;
    match tls {
        Some(folder) => axum::serve(TlsListener::new(listener, &folder)?, router).with_graceful_shutdown(stop).await?,
        None => axum::serve(listener, router).with_graceful_shutdown(stop).await?,
    }
    Ok(())
}

/// A line that does not reach the log is missed by its reader.
fn print(report: &Report) {
    match serde_json::to_string(report) {
        Ok(line) => println!("{line}"),
        Err(error) => eprintln!("failed to write a report: {error}"),
    }
}
