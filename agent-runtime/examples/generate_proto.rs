//! Regenerates `src/backend/inference.rs` from `proto/inference.proto`, without protoc.
//!
//! Run with `cargo run -p slipway-agent-runtime --example generate_proto`; a test compares the committed file.

use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([package.join("proto/inference.proto")], [package.join("proto")])?;
    tonic_prost_build::configure().out_dir(package.join("src/backend")).compile_fds(descriptors)?;
    Ok(())
}
