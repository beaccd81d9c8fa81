//! What manifests of crates say about each other.

use super::Violation;

/// What a crate may depend on.
enum Place {
    /// The words that programs exchange: serialization, and what the API's schemas need, which is optional.
    Vocabulary,
    /// Nothing but serialization and the vocabulary: types of a wire format, or what is known of a tool.
    Wire,
    /// These crates of the workspace, and any library.
    Above(&'static [&'static str]),
}

/// Every crate, and what it may depend on. An absent crate is one that has yet to be written.
const ARROWS: [(&str, Place); 19] = [
    ("crds/vocabulary", Place::Vocabulary),
    ("agent-runtime/config", Place::Wire),
    ("operator/worker/contract", Place::Wire),
    ("crds", Place::Above(&["slipway-vocabulary"])),
    ("crds/manifest", Place::Above(&["slipway-crds"])),
    ("operator/analysis", Place::Above(&["slipway-vocabulary"])),
    ("operator/trace", Place::Above(&["slipway-vocabulary"])),
    ("operator/evaluation", Place::Above(&["slipway-analysis", "slipway-vocabulary"])),
    (
        "operator/analysis-cli",
        Place::Above(&[
            "slipway-analysis",
            "slipway-crds",
            "slipway-evaluation",
            "slipway-selection",
            "slipway-trace",
            "slipway-vocabulary",
        ]),
    ),
    ("operator/selection", Place::Above(&["slipway-analysis", "slipway-crds", "slipway-vocabulary"])),
    ("operator/backends", Place::Wire),
    (
        "operator/agent-config",
        Place::Above(&[
            "slipway-backends",
            "slipway-crds",
            "slipway-runtime-config",
            "slipway-vocabulary",
            "slipway-worker-contract",
        ]),
    ),
    ("agent-runtime", Place::Above(&["slipway-vocabulary", "slipway-runtime-config"])),
    (
        "operator/worker",
        Place::Above(&[
            "slipway-agent-runtime",
            "slipway-analysis",
            "slipway-backends",
            "slipway-vocabulary",
            "slipway-worker-contract",
        ]),
    ),
    (
        "operator/core",
        Place::Above(&[
            "slipway-agent-config",
            "slipway-analysis",
            "slipway-crds",
            "slipway-selection",
            "slipway-vocabulary",
            "slipway-runtime-config",
            "slipway-backends",
            "slipway-worker-contract",
        ]),
    ),
    (
        "operator",
        Place::Above(&["slipway-crds", "slipway-vocabulary", "slipway-operator-core", "slipway-worker-contract"]),
    ),
    (
        "operator/cli",
        Place::Above(&[
            "slipway-agent-config",
            "slipway-analysis",
            "slipway-backends",
            "slipway-crds",
            "slipway-manifest",
            "slipway-selection",
            "slipway-vocabulary",
            "slipway-worker-contract",
        ]),
    ),
    ("e2e", Place::Above(&["slipway-crds", "slipway-vocabulary"])),
    ("preflight", Place::Above(&["slipway-vocabulary"])),
];

/// Arrows of tests alone: the crate itself may not have them.
const OF_TESTS: [(&str, &str); 2] = [("operator", "slipway-manifest"), ("operator/core", "slipway-manifest")];

const SERIALIZATION: [&str; 3] = ["serde", "serde_json", "thiserror"];

/// The members of a workspace.
pub fn members(workspace: &str) -> Vec<String> {
    let list = workspace.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.expect("the workspace lists its members");
    list.split(',')
        .map(|member| member.trim().trim_matches('"').to_owned())
        .filter(|member| !member.is_empty())
        .collect()
}

/// The dependencies of one section, with their lines.
pub fn dependencies<'a>(manifest: &'a str, section: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let mut is_inside = false;
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        if line.starts_with('[') {
            is_inside = line.trim() == section;
            return None;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        (is_inside && !name.is_empty() && !name.starts_with('#')).then_some((index + 1, name))
    })
}

/// Dependencies that have no arrow. Those of tests are held to the arrows too, but may be any library.
pub fn against_arrows(member: &str, manifest: &str) -> Vec<Violation> {
    let file = format!("{member}/Cargo.toml");
    let Some((_, place)) = ARROWS.iter().find(|(name, _)| *name == member) else {
        let rule = format!(
            "{member} has no place among the arrows: give it one in operator/tests/architecture/manifests.rs and in \
             ARCHITECTURE.md"
        );
        return vec![Violation { file, line: 1, rule }];
    };
    let own = dependencies(manifest, "[dependencies]");
    let of_tests = dependencies(manifest, "[dev-dependencies]")
        .filter(|(_, name)| name.starts_with("slipway-") && !OF_TESTS.contains(&(member, *name)));
    let is_optional = |line: usize| manifest.lines().nth(line - 1).is_some_and(|text| text.contains("optional = true"));
    let wrong = own.chain(of_tests).filter_map(|(line, name)| {
        Some((line, broken_rule(member, place, Dependency { name, is_optional: is_optional(line) })?))
    });
    wrong.map(|(line, rule)| Violation { file: file.clone(), line, rule }).collect()
}

struct Dependency<'a> {
    name: &'a str,
    is_optional: bool,
}

fn broken_rule(member: &str, place: &Place, Dependency { name, is_optional }: Dependency<'_>) -> Option<String> {
    let serializes = SERIALIZATION.contains(&name);
    match place {
        Place::Vocabulary => (!(serializes || name == "schemars" && is_optional)).then(|| {
            format!("{member} depends on serde, serde_json, thiserror and an optional schemars alone, not on {name}")
        }),
        Place::Wire => (!serializes && name != "slipway-vocabulary").then(|| {
            format!(
                "{member} is a wire crate: it depends on serde, serde_json, thiserror and slipway-vocabulary alone, \
                 not on {name}"
            )
        }),
        Place::Above(allowed) => (name.starts_with("slipway-") && !allowed.contains(&name)).then(|| {
            let allowed = if allowed.is_empty() { "no crate of the workspace".to_owned() } else { allowed.join(", ") };
            format!("{member} may depend on {allowed}, not on {name}")
        }),
    }
}

/// Arrows that a manifest does not use.
pub fn unused_arrows(member: &str, manifest: &str) -> Vec<Violation> {
    let allowed: &[&str] = match ARROWS.iter().find(|(name, _)| *name == member) {
        Some((_, Place::Above(allowed))) => allowed,
        Some((_, Place::Vocabulary | Place::Wire)) | None => &[],
    };
    let used: Vec<&str> = dependencies(manifest, "[dependencies]").map(|(_, name)| name).collect();
    let unused = allowed.iter().filter(|name| !used.contains(*name));
    let rule = |name| format!("{member} does not depend on {name}: remove the arrow, here and in ARCHITECTURE.md");
    unused.map(|name| Violation { file: format!("{member}/Cargo.toml"), line: 1, rule: rule(name) }).collect()
}

/// Whether a crate goes without the lints of the workspace.
pub fn without_lints(member: &str, manifest: &str) -> Option<Violation> {
    let takes_them = dependencies(manifest, "[lints]").any(|(_, name)| name == "workspace")
        && manifest.lines().any(|line| line.trim() == "workspace = true");
    let rule = "a crate takes the lints of the workspace: add `[lints] workspace = true`".to_owned();
    (!takes_them).then(|| Violation { file: format!("{member}/Cargo.toml"), line: 1, rule })
}

/// The crate that launches a kernel on a GPU. It has lints of its own, because `forbid` knows no exception.
pub const LAUNCHES: &str = "preflight";

/// Whether that crate's lints are weaker than those of the workspace in anything but the exception.
pub fn weaker_lints(workspace: &str, manifest: &str) -> Option<Violation> {
    let is_kept = |line: &str| manifest.lines().any(|own| own.trim() == line);
    let of_workspace = ["[workspace.lints.rust]", "[workspace.lints.clippy]"]
        .into_iter()
        .flat_map(|section| dependencies(workspace, section))
        .filter_map(|(number, _)| workspace.lines().nth(number - 1));
    let unsafe_code = "unsafe_code = \"deny\"";
    let needed = of_workspace.map(|line| if line.starts_with("unsafe_code") { unsafe_code } else { line });
    let missing: Vec<&str> = needed.chain(["undocumented_unsafe_blocks = \"deny\""]).filter(|l| !is_kept(l)).collect();
    let rule = format!("it takes all lints of the workspace: add `{}`", missing.join("`, `"));
    (!missing.is_empty()).then(|| Violation { file: format!("{LAUNCHES}/Cargo.toml"), line: 1, rule })
}

/// Whether the workspace lets unsafe code pass.
pub fn without_forbid(workspace: &str) -> Option<Violation> {
    let line = dependencies(workspace, "[workspace.lints.rust]").find(|(_, name)| *name == "unsafe_code");
    let forbids = workspace.lines().any(|line| line.trim() == "unsafe_code = \"forbid\"");
    let rule = "the workspace forbids unsafe code: `unsafe_code = \"forbid\"`".to_owned();
    (line.is_none() || !forbids).then(|| Violation {
        file: "Cargo.toml".to_owned(),
        line: line.map_or(1, |l| l.0),
        rule,
    })
}
