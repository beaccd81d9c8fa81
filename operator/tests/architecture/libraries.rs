//! What programs link, read from Cargo.lock and manifests, and whether the code uses what manifests ask for.
//!
//! Cargo.lock knows no features: a library that only a feature brings in counts here. `links` asks cargo itself.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use super::{manifests, read, root, source::Source, sources};

/// Programs that users run in clusters, and libraries that they must not compile.
const NOT_LINKED: [(&str, &[&str]); 4] = [
    ("operator", &["csv", "flate2", "libsqlite3-sys", "nalgebra", "rusqlite", "tempfile"]),
    // The worker unpacks archives and reads Model Analyzer's tables.
    ("operator/worker", &["libsqlite3-sys", "nalgebra", "rusqlite", "tempfile"]),
    ("agent-runtime", &["csv", "flate2", "libsqlite3-sys", "nalgebra", "rusqlite", "tempfile"]),
    ("operator/cli", &["csv", "flate2", "libsqlite3-sys", "nalgebra", "rusqlite", "tempfile"]),
];

#[test]
fn programs_link_no_library_of_another_one() {
    let workspace = Workspace::read();
    let mut found = Vec::new();
    for (member, forbidden) in NOT_LINKED {
        let linked = workspace.linked(member);
        assert!(linked.contains_key("serde"), "{member} links serde: {linked:?}");
        let is_linked = |name: &&str| Some(format!("{member} links {name} by {}", linked.get(*name)?));
        found.extend(forbidden.iter().filter_map(is_linked));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_forbidden_library_is_found_with_the_way_to_it() {
    let workspace = Workspace::read();
    let linked = workspace.linked("operator/analysis-cli");
    assert_eq!(linked["libsqlite3-sys"], "slipway-trace > rusqlite");
}

#[test]
fn every_dependency_is_named_by_the_code() {
    let workspace = Workspace::read();
    let mut unused = Vec::new();
    for (member, manifest) in &workspace.manifests {
        let code = below(member, &["src"]);
        let tests = below(member, &["src", "tests", "examples", "benches"]);
        for (_, name) in manifests::dependencies(manifest, "[dependencies]") {
            if !code.iter().any(|source| !source.is_test() && source.uses(&crate_name(name))) {
                unused.push(format!("{member}: {name} in [dependencies]"));
            }
        }
        for (_, name) in manifests::dependencies(manifest, "[dev-dependencies]") {
            if !tests.iter().any(|source| source.mentions(&crate_name(name))) {
                unused.push(format!("{member}: {name} in [dev-dependencies]"));
            }
        }
    }
    let asked: BTreeSet<&str> = workspace.manifests.values().flat_map(|manifest| all_of(manifest)).collect();
    let offered = manifests::dependencies(&workspace.root, "[workspace.dependencies]").map(|(_, name)| name);
    unused.extend(offered.filter(|name| !asked.contains(name)).map(|name| format!("the workspace: {name}")));
    assert_eq!(unused, Vec::<String>::new());
}

fn all_of(manifest: &str) -> impl Iterator<Item = &str> {
    ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"]
        .into_iter()
        .flat_map(|section| manifests::dependencies(manifest, section).map(|(_, name)| name))
}

/// The name by which code calls a package.
fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

/// The sources of some folders of a crate; none where it has no such folder.
fn below(member: &str, folders: &[&str]) -> Vec<Source> {
    let existing = folders.iter().map(|folder| format!("{member}/{folder}")).filter(|path| root().join(path).is_dir());
    existing.flat_map(|path| sources(&path)).collect()
}

/// What Cargo has decided.
struct Workspace {
    root: String,
    /// Manifests by the members' paths.
    manifests: BTreeMap<String, String>,
    /// Dependencies by name and version.
    locked: BTreeMap<(String, String), Vec<String>>,
}

impl Workspace {
    fn read() -> Self {
        let file = |path: &Path| read(&root().join(path));
        let text = file(Path::new("Cargo.toml"));
        let manifest = |member: String| {
            let manifest = file(&Path::new(&member).join("Cargo.toml"));
            (member, manifest)
        };
        let manifests = manifests::members(&text).into_iter().map(manifest).collect();
        Self { root: text, manifests, locked: locked(&file(Path::new("Cargo.lock"))) }
    }

    /// The packages that a member links, by name, with the way to each. Those for other systems count too.
    fn linked(&self, member: &str) -> BTreeMap<String, String> {
        let mut ways: BTreeMap<String, String> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut open: VecDeque<(String, String)> =
            self.own(member).into_iter().map(|name| (name, String::new())).collect();
        while let Some((dependency, way)) = open.pop_front() {
            let Some((key, dependencies)) = self.find(&dependency) else { continue };
            if !seen.insert(key.clone()) {
                continue;
            }
            ways.entry(key.0.clone()).or_insert_with(|| way.clone());
            let way = if way.is_empty() { key.0.clone() } else { format!("{way} > {}", key.0) };
            // The lock file lists what a member's tests need as well.
            let dependencies = self.member(&key.0).map_or_else(|| dependencies.clone(), |member| self.own(member));
            open.extend(dependencies.into_iter().map(|name| (name, way.clone())));
        }
        ways
    }

    fn find(&self, dependency: &str) -> Option<(&(String, String), &Vec<String>)> {
        let mut parts = dependency.split(' ');
        let (name, version) = (parts.next()?, parts.next());
        self.locked.iter().find(|(key, _)| key.0 == name && version.is_none_or(|version| key.1 == version))
    }

    /// The dependencies of a member without those of its tests.
    fn own(&self, member: &str) -> Vec<String> {
        let names = manifests::dependencies(&self.manifests[member], "[dependencies]").map(|(_, name)| name);
        let package = package_of(&self.manifests[member]);
        let locked = self.find(package).map(|(_, dependencies)| dependencies.as_slice()).unwrap_or_default();
        let is_named =
            |name: &str| locked.iter().find(|dependency| dependency.split(' ').next() == Some(name)).cloned();
        names.filter_map(is_named).collect()
    }

    fn member(&self, package: &str) -> Option<&str> {
        self.manifests.iter().find(|(_, manifest)| package_of(manifest) == package).map(|(member, _)| member.as_str())
    }
}

/// The name of a manifest's package.
fn package_of(manifest: &str) -> &str {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).expect("a package has a name")
}

/// The packages of a lock file. A dependency is a name, or name and version where there are several.
fn locked(lock: &str) -> BTreeMap<(String, String), Vec<String>> {
    let package = |text: &str| {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = \""))?.strip_suffix('"'));
            line.expect("a package has a name and a version").to_owned()
        };
        let quoted = |line: &str| Some(line.strip_prefix(" \"")?.strip_suffix("\",")?.to_owned());
        ((field("name"), field("version")), text.lines().filter_map(quoted).collect())
    };
    lock.split("[[package]]").skip(1).map(package).collect()
}
