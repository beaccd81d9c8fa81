//! The arrows and the walls of ARCHITECTURE.md, held by reading manifests and sources of the whole workspace.
//!
//! The layers within the sidecar are held by its own test, `agent-runtime/tests/runtime/layers.rs`.

#![allow(clippy::panic, reason = "a file that cannot be read fails the test, with its path")]

mod circles;
mod dependencies;
mod links;
mod manifests;
mod source;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use source::Source;

/// A rule that a line breaks.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

fn assert_none(violations: Vec<Violation>) {
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust sources below a folder of the workspace, with their paths from its root.
fn sources(folder: &str) -> Vec<Source> {
    let found = sources_if_any(folder);
    assert!(!found.is_empty(), "{folder} holds no source");
    found
}

/// The same of a folder that may hold data alone.
fn sources_if_any(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("the entry is readable").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push(Source { name, text: read(&path) });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// What a pure module must take as an argument instead. Random numbers from a seed are a function of that seed.
const IMPURE: [(&str, &str); 14] = [
    ("kube::Client", "talks to a server"),
    ("reqwest::Client", "talks to a server"),
    (".await", "waits"),
    ("tokio", "waits"),
    ("Timestamp::now", "reads the clock: take it as an argument"),
    ("SystemTime", "reads the clock: take it as an argument"),
    ("Instant::now", "reads the clock: take it as an argument"),
    ("rand::rng", "draws random numbers without a seed"),
    ("rand::random", "draws random numbers without a seed"),
    ("from_os_rng", "draws random numbers without a seed"),
    ("std::env", "reads the environment"),
    ("std::fs", "reads files"),
    ("std::net", "reaches the network"),
    ("tracing::", "logs: return what there is to say"),
];

/// The sources that are pure: those whose `//!` says so, and all of a crate whose `lib.rs` says so. Tests are left out.
fn pure_sources() -> Vec<Source> {
    let is_pure_crate = |of_crate: &[Source]| {
        let root = of_crate.iter().find(|source| source.name.ends_with("/src/lib.rs"));
        root.is_some_and(Source::says_pure)
    };
    let of_crates = manifests::members(&read(&root().join("Cargo.toml"))).into_iter().map(|member| {
        let mut of_crate = sources(&format!("{member}/src"));
        let is_pure_crate = is_pure_crate(&of_crate);
        of_crate.retain(|source| !source.is_test() && (is_pure_crate || source.says_pure()));
        of_crate
    });
    of_crates.flatten().collect()
}

#[test]
fn what_says_that_it_is_pure_is() {
    assert_none(pure_sources().iter().flat_map(|source| source.naming(&IMPURE, "a pure module")).collect());
}

#[test]
fn the_core_of_the_operator_is_pure_as_a_whole() {
    let pure: Vec<String> = pure_sources().into_iter().map(|source| source.name).collect();
    let core = sources("operator/core/src");
    let unchecked: Vec<&str> = core
        .iter()
        .filter(|source| !source.is_test() && !pure.contains(&source.name))
        .map(|source| source.name.as_str())
        .collect();
    assert_eq!(unchecked, Vec::<&str>::new());
    assert_eq!(links::impure(&links::linked("slipway-operator-core")), Vec::<&str>::new());
}

#[test]
fn engines_profiles_and_jobs_know_nothing_of_agent_deployments() {
    let forbidden = [("crate::agent_deployment", "is the planner of those who use it")];
    let below: Vec<Source> = ["engine", "profile", "jobs"]
        .into_iter()
        .flat_map(|folder| sources(&format!("operator/core/src/{folder}")))
        .filter(|source| !source.is_test())
        .collect();
    assert_none(below.iter().flat_map(|source| source.naming(&forbidden, "a module that it uses")).collect());
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let of_operator = ["operator/core/src", "operator/src"];
    assert_none(of_operator.iter().flat_map(|root| circles::circles(root, &sources(root))).collect());
}

/// Arrows of the core that close a circle of folders, though not one of files, with the reason.
const TOLERATED: [(&str, &str, &str); 4] = [
    ("src/agent_deployment/world.rs", "agent_deployment/", "the world holds what each phase reads of the cluster"),
    ("src/agent_deployment/rollout/prediction.rs", "agent_deployment/profiling", "campaigns predict what a plan does"),
    ("src/agent_deployment/rollout/approval.rs", "agent_deployment/status", "the status knows what serves"),
    ("src/why.rs", "jobs/kind", "a reason names the Job that it is about"),
];

#[test]
fn no_folders_import_each_other_in_a_circle() {
    let tolerated = TOLERATED.map(|(file, to, _)| (file, to));
    assert_none(circles::folder_circles("operator/core/src", &sources("operator/core/src"), &tolerated));
    assert_none(circles::folder_circles("operator/src", &sources("operator/src"), &[]));
}

#[test]
fn planners_share_nothing_that_they_could_change() {
    let forbidden = [
        ("&mut Parts", "is what others contribute: return your own"),
        ("&mut Plan", "is what others contribute: return your own part"),
        ("&mut AgentDeploymentStatus", "is what others found out: return what you found"),
        ("&mut EngineStatus", "is what others found out: return what you found"),
        ("&mut ProfileStatus", "is what others found out: return what you found"),
    ];
    // The one place where parts are joined, and what tests replace in a status.
    let others = ["operator/core/src/parts.rs", "operator/core/src/reworded.rs"];
    let core = sources("operator/core/src");
    let planners = core.iter().filter(|source| !source.is_test() && !others.contains(&source.name.as_str()));
    assert_none(planners.flat_map(|source| source.naming(&forbidden, "a planner")).collect());
}

#[test]
fn what_is_decided_on_is_read_through_the_reader() {
    let forbidden = [
        ("kube::Api", "reaches the cluster beside `kube_io::read::Reader`"),
        ("list_api_groups", "asks for groups beside `kube_io::read::Reader`"),
        ("list_api_group_resources", "asks for kinds beside `kube_io::read::Reader`"),
    ];
    // Watches are no reads, and a lease is never read from a cache.
    let others = ["operator/src/kube_io/", "operator/src/watches.rs", "operator/src/leader/"];
    let is_other = |source: &Source| others.iter().any(|other| source.name.starts_with(other));
    let shell = sources("operator/src");
    let readers = shell.iter().filter(|source| !source.is_test() && !is_other(source));
    assert_none(readers.flat_map(|source| source.naming(&forbidden, "an observation")).collect());
}

#[test]
fn programs_link_no_library_of_another_one() {
    let linked = |(program, forbidden): (&str, &[&str])| {
        let tree = links::linked(program);
        let found = links::naming(&tree, forbidden);
        found.into_iter().map(|package| format!("{program} links {package}")).collect::<Vec<_>>()
    };
    assert_eq!(links::NOT_LINKED.into_iter().flat_map(linked).collect::<Vec<_>>(), Vec::<String>::new());
}

/// What the statistics must not do. Their callers pass time, seeds and files.
const OUTSIDE: [(&str, &str); 5] = [
    ("std::fs", "reads files"),
    ("std::net", "reaches the network"),
    ("std::env", "reads the environment"),
    ("std::time", "reads the clock"),
    ("tokio", "waits"),
];

#[test]
fn the_analysis_reaches_nothing_outside() {
    let inner = sources("operator/analysis/src").into_iter().filter(|source| !source.is_test());
    assert_none(inner.flat_map(|source| source.naming(&OUTSIDE, "the analysis")).collect());
}

/// Files of the trace diagnosis that reach outside all the same, with the reason.
const TRACE_EXCEPTIONS: [(&str, &str); 1] = [(
    "operator/trace/src/sort.rs",
    "a trace is larger than memory: its events are sorted in a folder that the caller names",
)];

#[test]
fn the_trace_diagnosis_reaches_outside_only_to_sort() {
    let inner = sources("operator/trace/src").into_iter().filter(|source| !source.is_test());
    let found: Vec<Violation> = inner.flat_map(|source| source.naming(&OUTSIDE, "the trace diagnosis")).collect();
    let is_excepted = |violation: &Violation| TRACE_EXCEPTIONS.iter().any(|(file, _)| violation.file == *file);
    let (excepted, broken): (Vec<_>, Vec<_>) = found.into_iter().partition(is_excepted);
    assert_none(broken);
    assert!(excepted.len() >= TRACE_EXCEPTIONS.len(), "an exception is no longer needed: {TRACE_EXCEPTIONS:?}");
}

const MOST_LINES: usize = 500;

/// Longer files, with the reason.
const LONG_FILES: [(&str, &str); 1] =
    [("agent-runtime/src/backend/inference.rs", "generated from agent-runtime/proto/inference.proto")];

#[test]
fn files_are_short_enough_to_be_read() {
    let all = manifests::members(&read(&root().join("Cargo.toml")));
    // Members lie within each other's folders, never within each other's sources.
    let files = all.iter().flat_map(|member| sources(&format!("{member}/src")));
    let is_listed = |source: &Source| LONG_FILES.iter().any(|(file, _)| source.name == *file);
    let long = files.filter(|source| !is_listed(source)).filter_map(|source| too_long(&source));
    assert_none(long.collect());
}

fn too_long(source: &Source) -> Option<Violation> {
    let lines = source.text.lines().count();
    let rule = format!("a file has at most {MOST_LINES} lines, this one has {lines}: split it by concern");
    (lines > MOST_LINES).then(|| Violation { file: source.name.clone(), line: MOST_LINES + 1, rule })
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    let workspace = read(&root().join("Cargo.toml"));
    let violations = manifests::members(&workspace)
        .iter()
        .flat_map(|member| manifests::against_arrows(member, &read(&root().join(member).join("Cargo.toml"))))
        .collect();
    assert_none(violations);
}

#[test]
fn every_arrow_is_used() {
    let workspace = read(&root().join("Cargo.toml"));
    let violations = manifests::members(&workspace)
        .iter()
        .flat_map(|member| manifests::unused_arrows(member, &read(&root().join(member).join("Cargo.toml"))))
        .collect();
    assert_none(violations);
}

#[test]
fn one_module_alone_may_contain_unsafe_code() {
    let workspace = read(&root().join("Cargo.toml"));
    let manifest = |member: &str| read(&root().join(member).join("Cargo.toml"));
    assert_none(manifests::without_forbid(&workspace).into_iter().collect());
    let others = manifests::members(&workspace).into_iter().filter(|member| member != manifests::LAUNCHES);
    let violations = others.filter_map(|member| manifests::without_lints(&member, &manifest(&member))).collect();
    assert_none(violations);
    assert_none(manifests::weaker_lints(&workspace, &manifest(manifests::LAUNCHES)).into_iter().collect());
    let unsafe_sources: Vec<String> = sources(manifests::LAUNCHES)
        .into_iter()
        .filter(|source| source.text.contains("unsafe"))
        .map(|source| source.name)
        .collect();
    assert_eq!(unsafe_sources, ["preflight/src/nvidia/products.rs"]);
}

/// The checks above would be worth nothing if they could not fail.
mod checks_can_fail {
    use pretty_assertions::assert_eq;

    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "operator/src/x/decide.rs".to_owned(), text: text.to_owned() }
    }

    fn found(text: &str) -> Vec<String> {
        source(text).naming(&IMPURE, "a pure module").iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_planner_that_reads_the_clock_is_named_with_its_line() {
        let text = "//! Pure.\n\nuse jiff::Timestamp;\n\nfn decide() -> Timestamp {\n    Timestamp::now()\n}\n";
        let expected = "operator/src/x/decide.rs:6: a pure module must not name `Timestamp::now`, which reads the clock: take \
                        it as an argument";
        assert_eq!(found(text), [expected]);
    }

    #[test]
    fn an_import_hidden_in_braces_is_found() {
        let text = "use std::{\n    collections::BTreeMap,\n    env::{self, VarError},\n};\nuse kube::{Api, Client};\n";
        let rules: Vec<_> =
            found(text).into_iter().filter_map(|line| line.split('`').nth(1).map(str::to_owned)).collect();
        assert_eq!(rules, ["std::env", "kube::Client"]);
    }

    #[test]
    fn comments_texts_and_tests_are_no_code() {
        let text = "/// Never a Client, nor .await.\nfn f() -> &'static str {\n    \"std::env and tracing\" // rand\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { let _ = Timestamp::now(); }\n}\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn code_after_a_text_or_a_test_is_code() {
        let text = "const A: &str = r#\"a \" quote\"#;\nconst B: char = '\"';\n#[cfg(test)]\nmod tests {}\nuse tracing::info;\n";
        let expected = "operator/src/x/decide.rs:5: a pure module must not name `tracing::`, which logs: return what there is to say";
        assert_eq!(found(text), [expected]);
    }

    #[test]
    fn a_part_of_a_word_is_another_word() {
        let text = "fn operand(clients: ClientError, tracing: Tracing) -> Kind { brand::new(); Kind::Client }\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn files_that_import_each_other_are_named_with_the_way_from_one_to_the_other() {
        let files = [
            ("lib.rs", "pub mod a;\npub mod b;\npub mod c;\n"),
            ("a.rs", "use crate::b::B;\nuse std::fmt;\npub struct A(B);\n"),
            ("b/mod.rs", "pub mod inner;\npub use inner::Inner;\npub struct B;\n"),
            ("b/inner.rs", "use super::B;\npub struct Inner(B);\n"),
            ("c.rs", "use super::{a::A, b::Inner};\npub fn c(_: A, _: Inner) {}\n"),
        ];
        let source = |(name, text): (&str, &str)| Source { name: format!("x/{name}"), text: text.to_owned() };
        let found = |files: &[(&str, &str)]| -> Vec<String> {
            let sources: Vec<Source> = files.iter().copied().map(source).collect();
            circles::circles("x", &sources).iter().map(Violation::to_string).collect()
        };
        assert_eq!(found(&files), Vec::<String>::new());
        let mut files = files.to_vec();
        files[3].1 = "use super::B;\npub struct Inner(B);\npub fn f() { crate::c::c() }\n";
        let rule = |names: &str| format!("files of x import each other in a circle: {names}");
        let expected = [
            format!("x/b/inner.rs:1: {}", rule("x/b/inner.rs -> x/c.rs -> x/b/inner.rs")),
            format!("x/c.rs:1: {}", rule("x/c.rs -> x/b/inner.rs -> x/c.rs")),
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn folders_that_import_each_other_through_different_files_are_named() {
        let files = [
            ("lib.rs", "pub mod a;\npub mod b;\n"),
            ("a/mod.rs", "pub mod one;\npub mod two;\n"),
            ("a/one.rs", "use crate::b::three::Three;\npub struct One(Three);\n"),
            ("a/two.rs", "pub struct Two;\n"),
            ("b/mod.rs", "pub mod three;\npub mod four;\n"),
            ("b/three.rs", "pub struct Three;\n"),
            ("b/four.rs", "use crate::a::two::Two;\npub struct Four(Two);\n"),
        ];
        let source = |(name, text): (&str, &str)| Source { name: format!("x/{name}"), text: text.to_owned() };
        let sources = files.map(source);
        let found = |tolerated: &[(&str, &str)]| -> Vec<String> {
            circles::folder_circles("x", &sources, tolerated).iter().map(Violation::to_string).collect()
        };
        assert!(circles::circles("x", &sources).is_empty(), "no file is in a circle");
        let rule = "modules of x import each other in a circle";
        assert_eq!(
            found(&[]),
            [format!("x/a:1: {rule}: x/a -> x/b -> x/a"), format!("x/b:1: {rule}: x/b -> x/a -> x/b")]
        );
        assert_eq!(found(&[("x/b/four.rs", "a")]), Vec::<String>::new());
        let unneeded = "x/b/three.rs:1: no longer names a: take it from the list of tolerated arrows";
        assert_eq!(found(&[("x/b/four.rs", "a"), ("x/b/three.rs", "a")]), [unneeded]);
    }

    #[test]
    fn a_file_is_pure_when_a_sentence_of_its_documentation_says_so() {
        let texts = [
            "//! What comes next. Pure.\n",
            "//! What comes next.\n//! Pure: the same world gives the same plan.\n",
            "//! Requests from a workload. Pure but for one read.\n",
            "//! The driver of a pure loop.\n",
            "//! Reads IO.\n\n/// Pure.\nfn f() {}\n",
        ];
        assert_eq!(texts.map(|text| source(text).says_pure()), [true, true, false, false, false]);
    }

    #[test]
    fn a_runtime_among_the_packages_of_a_crate_is_named() {
        let tree = "slipway-operator-core v0.1.0 (/slipway/operator/core)\nkube-core v4.2.0\ntokio v1.50.0\ntokio v1.50.0 (*)\n";
        assert_eq!(links::impure(tree), ["tokio v1.50.0", "tokio v1.50.0 (*)"]);
    }

    #[test]
    fn the_command_lines_own_libraries_are_found_where_it_links_them() {
        let tree = links::linked("slipway-analysis-cli");
        let names: Vec<&str> =
            links::naming(&tree, &["rusqlite"]).into_iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["rusqlite"]);
    }

    #[test]
    fn an_arrow_against_the_grain_is_named_with_its_line() {
        let manifest = "[package]\nname = \"slipway-analysis\"\n\n[dependencies]\nserde.workspace = true\n\
                        slipway-crds.workspace = true\n";
        let expected =
            "operator/analysis/Cargo.toml:6: operator/analysis may depend on slipway-vocabulary, not on slipway-crds";
        let found: Vec<_> =
            manifests::against_arrows("operator/analysis", manifest).iter().map(Violation::to_string).collect();
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_wire_crate_with_more_than_serde_is_named() {
        let manifest = "[dependencies]\nserde = { workspace = true }\nkube.workspace = true\n";
        let expected = "agent-runtime/config/Cargo.toml:3: agent-runtime/config is a wire crate: it depends on serde, \
                        serde_json, thiserror and slipway-vocabulary alone, not on kube";
        let found: Vec<_> =
            manifests::against_arrows("agent-runtime/config", manifest).iter().map(Violation::to_string).collect();
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_vocabulary_that_cannot_do_without_schemas_is_named() {
        let against = |manifest: &str| -> Vec<String> {
            manifests::against_arrows("crds/vocabulary", manifest).iter().map(Violation::to_string).collect()
        };
        let optional = "[dependencies]\nserde.workspace = true\nschemars = { workspace = true, optional = true }\n";
        assert_eq!(against(optional), Vec::<String>::new());
        let expected = "crds/vocabulary/Cargo.toml:2: crds/vocabulary depends on serde, serde_json, thiserror and an \
                        optional schemars alone, not on schemars";
        assert_eq!(against("[dependencies]\nschemars.workspace = true\n"), [expected]);
    }

    #[test]
    fn a_crate_that_nobody_placed_is_named() {
        let expected = "somewhere/Cargo.toml:1: somewhere has no place among the arrows: give it one in \
                        operator/tests/architecture/manifests.rs and in ARCHITECTURE.md";
        let found: Vec<_> = manifests::against_arrows("somewhere", "").iter().map(Violation::to_string).collect();
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_crate_without_the_lints_of_the_workspace_is_named() {
        let found = manifests::without_lints("crds", "[package]\nname = \"slipway-crds\"\n").map(|v| v.to_string());
        let expected = "crds/Cargo.toml:1: a crate takes the lints of the workspace: add `[lints] workspace = true`";
        assert_eq!(found, Some(expected.to_owned()));
        assert!(manifests::without_forbid("[workspace.lints.rust]\nunsafe_code = \"warn\"\n").is_some());
        let workspace =
            "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[workspace.lints.clippy]\npanic = \"deny\"\n";
        let weaker = manifests::weaker_lints(workspace, "unsafe_code = \"deny\"\n").map(|v| v.to_string());
        let expected = "preflight/Cargo.toml:1: it takes all lints of the workspace: add `panic = \"deny\"`, \
                        `undocumented_unsafe_blocks = \"deny\"`";
        assert_eq!(weaker, Some(expected.to_owned()));
    }

    #[test]
    fn a_long_file_is_named() {
        assert!(too_long(&source(&"\n".repeat(MOST_LINES + 1))).is_some());
        assert!(too_long(&source(&"\n".repeat(MOST_LINES))).is_none());
    }
}
