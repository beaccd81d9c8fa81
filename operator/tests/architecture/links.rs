//! What a crate links, as cargo resolves it.

use std::process::Command;

use super::root;

/// What a pure crate must not link: a runtime, an HTTP client, or the parts of kube that need them.
const FORBIDDEN: [&str; 7] = ["tokio", "hyper", "hyper-util", "kube-client", "kube-runtime", "reqwest", "rustls"];

/// The packages that a crate links, one a line with its version. Tests and build scripts of others are left out.
pub fn linked(package: &str) -> String {
    let arguments = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--locked", "--offline"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// Those of them that a pure crate must not link.
pub fn impure(tree: &str) -> Vec<&str> {
    let mut found: Vec<&str> = tree.lines().filter(|line| names_one(line)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn names_one(line: &str) -> bool {
    line.split(' ').next().is_some_and(|name| FORBIDDEN.contains(&name))
}
