//! Test servers for scenarios and the demo.

use std::{error::Error, net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};
use slipway_e2e::servers::{facts, models};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[derive(Debug, Parser)]
#[command(name = "slipway-e2e", version)]
struct Args {
    #[command(subcommand)]
    server: Server,
    /// Address to listen on.
    #[arg(long, global = true, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
}

#[derive(Debug, Subcommand)]
enum Server {
    /// Serves checkpoints, one folder each.
    Models {
        /// Folder with the checkpoints.
        #[arg(long, default_value = "/models")]
        root: PathBuf,
    },
    /// Serves facts for an agent to look up.
    Facts,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { server, listen } = Args::parse();
    let router = match server {
        Server::Models { root } => models::router(root),
        Server::Facts => facts::router(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    axum::serve(TcpListener::bind(listen).await?, router).with_graceful_shutdown(stop).await?;
    Ok(())
}
