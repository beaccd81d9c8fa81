//! The Slipway operator.

use std::{error::Error as _, process::ExitCode};

use clap::Parser;
use slipway_operator::args::Args;
use tracing::error;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).init();
    match Args::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The formatter shows an error without its causes, and here there is no one else to tell.
            let mut chain = failure.to_string();
            let mut source = failure.source();
            while let Some(cause) = source {
                chain.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            error!(error = chain, "the operator ended");
            ExitCode::FAILURE
        }
    }
}
