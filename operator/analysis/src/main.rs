//! The command line of the analysis crate; everything it does lives in [`slipway_analysis::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    slipway_analysis::cli::main()
}
