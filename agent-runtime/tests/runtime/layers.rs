//! What imports what, and what stays pure.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;

/// Each layer with those above it, which it must not name.
const LAYERS: [(&str, &[&str]); 6] = [
    ("agent", &["api", "app", "cli", "readiness"]),
    ("tools", &["agent", "api", "app", "cli", "readiness"]),
    ("backend", &["tools", "agent", "api", "app", "cli", "readiness", "telemetry"]),
    ("telemetry", &["backend", "tools", "agent", "api", "app", "cli", "readiness"]),
    ("clock.rs", &["backend", "tools", "agent", "api", "app", "cli", "readiness", "telemetry"]),
    ("api", &["app", "cli", "readiness"]),
];

/// Modules whose results depend on their arguments alone.
const PURE: [&str; 13] = [
    "agent/conversation.rs",
    "agent/grammar.rs",
    "agent/prompt.rs",
    "agent/state.rs",
    "agent/step.rs",
    "agent/timings.rs",
    "api/chat/request.rs",
    "api/runs/view.rs",
    "telemetry/recorder.rs",
    "telemetry/values.rs",
    "tools/arguments.rs",
    "tools/calculator.rs",
    "tools/calculator/fraction.rs",
];
const IMPURE: [&str; 8] =
    [".await", "async ", "tokio", "tracing::", "std::env", "Instant", "SystemTime", "Timestamp::now"];

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path)
}

fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path];
    }
    let entries = fs::read_dir(&path).expect("the layer exists");
    entries.flat_map(|entry| files(entry.expect("the entry is readable").path())).collect()
}

fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs")
}

#[test]
fn no_layer_imports_one_above() {
    let mut found = Vec::new();
    for (layer, above) in LAYERS {
        for file in files(source(layer)).into_iter().filter(|file| is_code(file)) {
            let text = fs::read_to_string(&file).expect("sources are text");
            // `use crate::{a, b::c}` spans lines: take each statement, then look for the module's name in it.
            let imports: Vec<_> = text.split(';').filter(|part| part.contains("crate::")).collect();
            let named = |name: &&&str| {
                let names = |part: &&str| {
                    let part = part.split_once("crate::").map_or("", |(_, path)| path);
                    part.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
                        .any(|word| word == **name || word.starts_with(&format!("{name}::")))
                };
                imports.iter().any(|part| names(&part.trim()) && part.trim_start().contains("use crate::"))
                    || text.contains(&format!("crate::{name}::"))
            };
            found.extend(above.iter().filter(named).map(|name| format!("{} names {name}", file.display())));
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn pure_modules_name_no_time_io_or_environment() {
    let mut found = Vec::new();
    for file in PURE {
        let text = fs::read_to_string(source(file)).expect("the module exists");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        found.extend(IMPURE.iter().filter(|word| code.contains(*word)).map(|word| format!("{file} names {word}")));
    }
    assert_eq!(found, [""; 0]);
}
