//! The Slipway operator.

use std::{process::ExitCode, thread::available_parallelism};

use clap::Parser;
use slipway_operator::args::Args;
use slipway_vocabulary::failure::chain;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

/// Looks take megabytes for a moment, and caches keep a little for ever: in the C library's heap that little holds what
/// the moment took. This one is a single heap for all threads, which gives pages back at once (`.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Threads that reconcile. One per core would be 128 on a large node.
const MOST_THREADS: usize = 4;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).init();
    let threads = available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
    let runtime = match Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(error = chain(&error), "no threads could be started");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(Args::parse().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = chain(&error), "the operator ended");
            ExitCode::FAILURE
        }
    }
}
