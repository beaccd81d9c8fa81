//! `kubectl slipway`: the AgentDeployments of a cluster, for people.

use std::{io::Write as _, process::ExitCode};

use clap::Parser;
use kubectl_slipway::args::Args;
use slipway_vocabulary::failure::chain;

#[tokio::main]
async fn main() -> ExitCode {
    match Args::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be done about a closed standard error.
            let _ = writeln!(std::io::stderr(), "kubectl slipway: {}", chain(&failure));
            ExitCode::from(failure.exit_code())
        }
    }
}
