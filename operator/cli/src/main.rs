//! `kubectl slipway`: the AgentDeployments of a cluster, for people.

use std::{error::Error, io::Write as _, process::ExitCode};

use clap::Parser;
use kubectl_slipway::args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match Args::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let mut message = failure.to_string();
            let mut source = failure.source();
            while let Some(cause) = source {
                message.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            // Nothing can be done about a closed standard error.
            let _ = writeln!(std::io::stderr(), "kubectl slipway: {message}");
            ExitCode::from(failure.exit_code())
        }
    }
}
