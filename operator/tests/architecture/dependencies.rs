//! Whether the code uses what manifests ask for.

use std::{collections::BTreeSet, path::Path};

use super::{manifests, read, root, source::Source, sources_if_any};

#[test]
fn every_dependency_is_named_by_the_code() {
    let workspace = read(&root().join("Cargo.toml"));
    let members = manifests::members(&workspace);
    let manifests: Vec<String> =
        members.iter().map(|member| read(&root().join(member).join(Path::new("Cargo.toml")))).collect();
    let mut unused: Vec<String> =
        members.iter().zip(&manifests).flat_map(|(member, manifest)| unused_by(member, manifest)).collect();
    let asked: BTreeSet<&str> = manifests.iter().flat_map(|manifest| all_of(manifest)).collect();
    let offered = names(&workspace, "[workspace.dependencies]").filter(|name| !asked.contains(name));
    unused.extend(offered.map(|name| format!("the workspace: {name}")));
    assert_eq!(unused, Vec::<String>::new());
}

/// The dependencies of a member that its code does not name.
fn unused_by(member: &str, manifest: &str) -> Vec<String> {
    let (code, tests) = (below(member, &["src"]), below(member, &["src", "tests", "examples", "benches"]));
    let is_used = |name: &&str| code.iter().any(|source| !source.is_test() && source.uses(&crate_name(name)));
    let is_tested = |name: &&str| tests.iter().any(|source| source.mentions(&crate_name(name)));
    let own = names(manifest, "[dependencies]").filter(|name| !is_used(name));
    let of_tests = names(manifest, "[dev-dependencies]").filter(|name| !is_tested(name));
    own.chain(of_tests).map(|name| format!("{member}: {name}")).collect()
}

fn names<'a>(manifest: &'a str, section: &'a str) -> impl Iterator<Item = &'a str> {
    manifests::dependencies(manifest, section).map(|(_, name)| name)
}

fn all_of(manifest: &str) -> impl Iterator<Item = &str> {
    let sections = ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"];
    sections.into_iter().flat_map(|section| names(manifest, section))
}

/// The name by which code calls a package.
fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

/// The sources of some folders of a crate; none where it has no such folder.
fn below(member: &str, folders: &[&str]) -> Vec<Source> {
    let existing = folders.iter().map(|folder| format!("{member}/{folder}")).filter(|path| root().join(path).is_dir());
    existing.flat_map(|path| sources_if_any(&path)).collect()
}
