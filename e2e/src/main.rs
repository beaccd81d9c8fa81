//! Test servers for scenarios and the demo, and the demo's traffic.

use std::{error::Error, net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};
use slipway_e2e::{
    servers::{facts, models},
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
    command: Command,
    /// Address to listen on.
    #[arg(long, global = true, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves checkpoints, one folder each.
    Models {
        /// Folder with the checkpoints.
        #[arg(long, default_value = "/models")]
        root: PathBuf,
    },
    /// Serves facts for an agent to look up.
    Facts,
    /// Sends recorded questions to an agent.
    Traffic(Traffic),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { command, listen } = Args::parse();
    let router = match command {
        Command::Models { root } => models::router(root),
        Command::Facts => facts::router(),
        Command::Traffic(traffic) => return Ok(traffic::send(traffic).await?),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    axum::serve(TcpListener::bind(listen).await?, router).with_graceful_shutdown(stop).await?;
    Ok(())
}
