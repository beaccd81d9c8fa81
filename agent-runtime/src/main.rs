//! The sidecar's process.

use std::process::ExitCode;

use clap::Parser;
use slipway_agent_runtime::{cli::Cli, failure::with_causes};

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
