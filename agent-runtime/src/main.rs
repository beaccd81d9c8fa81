//! The sidecar's process.

use std::{process::ExitCode, thread::available_parallelism};

use clap::Parser;
use slipway_agent_runtime::{cli::Cli, failure::with_causes};
use tokio::runtime::Builder;

#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let threads = cli.threads(available_parallelism().map_or(1, usize::from));
    let runtime = match Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: failed to start {threads} thread(s): {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(cli.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
