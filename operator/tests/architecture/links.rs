//! What a crate links, as cargo resolves it.

use std::process::Command;

use super::root;

/// What a pure crate must not link: a runtime, an HTTP client, or the parts of kube that need them.
const FORBIDDEN: [&str; 7] = ["tokio", "hyper", "hyper-util", "kube-client", "kube-runtime", "reqwest", "rustls"];

/// The libraries of the command line `slipway-analysis`, which no program in a cluster links.
const OF_THE_COMMAND_LINE: [&str; 5] = ["csv", "flate2", "libsqlite3-sys", "rusqlite", "tempfile"];

/// Programs that users run, and what they must not link.
pub const NOT_LINKED: [(&str, &[&str]); 4] = [
    // It reads AIConfigurator's tables.
    ("slipway-operator", &["flate2", "libsqlite3-sys", "rusqlite", "tempfile"]),
    // It unpacks archives and reads Model Analyzer's tables.
    ("slipway-worker", &["libsqlite3-sys", "rusqlite", "tempfile"]),
    ("slipway-agent-runtime", &OF_THE_COMMAND_LINE),
    ("kubectl-slipway", &OF_THE_COMMAND_LINE),
];

/// The packages that a crate links, one a line with its version. Tests and build scripts of others are left out.
pub fn linked(package: &str) -> String {
    let arguments = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--locked", "--offline"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// Those of them that a pure crate must not link.
pub fn impure(tree: &str) -> Vec<&str> {
    naming(tree, &FORBIDDEN)
}

/// Those of them that have one of these names.
pub fn naming<'a>(tree: &'a str, forbidden: &[&str]) -> Vec<&'a str> {
    let is_forbidden = |line: &&str| line.split(' ').next().is_some_and(|name| forbidden.contains(&name));
    let mut found: Vec<&str> = tree.lines().filter(is_forbidden).collect();
    found.sort_unstable();
    found.dedup();
    found
}
