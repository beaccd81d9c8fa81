//! The committed code is what the generator writes.

use std::{fs, path::Path};

#[test]
fn the_generated_code_is_current() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().expect("a temporary directory can be made");
    let descriptors = protox::compile([package.join("proto/inference.proto")], [package.join("proto")])
        .expect("the definition compiles");
    tonic_prost_build::configure().out_dir(fresh.path()).compile_fds(descriptors).expect("the code is generated");
    let read = |path: &Path| fs::read_to_string(path).expect("the file exists");
    assert!(
        read(&fresh.path().join("inference.rs")) == read(&package.join("src/backend/inference.rs")),
        "run `cargo run -p slipway-agent-runtime --example generate_proto`"
    );
}
