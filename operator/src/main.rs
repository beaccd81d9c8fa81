//! The Slipway operator.

use std::process::ExitCode;

use clap::Parser;
use slipway_operator::args::Args;
use slipway_vocabulary::failure::chain;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).init();
    match Args::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = chain(&error), "the operator ended");
            ExitCode::FAILURE
        }
    }
}
