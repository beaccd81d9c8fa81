//! Test servers for scenarios and the demo, clients of agents, and a builder that goes wrong.

use std::{
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{Parser, Subcommand};
use slipway_e2e::{
    builder,
    load::{
        client::{self, LoadSettings},
        report::Report,
    },
    servers::{facts, gpus, models, receivers},
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
    let Args { verb, listen } = Args::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    let router = match verb {
        Verb::Models { root } => models::router(root),
        Verb::Facts => facts::router(),
        Verb::Gpus => gpus::router(),
        Verb::Receivers => receivers::router(),
        Verb::Load(settings) => return Ok(client::run(settings, stop, print).await?),
        Verb::Traffic(traffic) => return Ok(traffic::send(traffic).await?),
        Verb::Build => return Ok(builder::build_half(Path::new(builder::OUTPUT))?),
    };
    axum::serve(TcpListener::bind(listen).await?, router).with_graceful_shutdown(stop).await?;
    Ok(())
}

/// A line that does not reach the log is missed by its reader.
fn print(report: &Report) {
    match serde_json::to_string(report) {
        Ok(line) => println!("{line}"),
        Err(error) => eprintln!("failed to write a report: {error}"),
    }
}
