//! What imports what, and what stays pure.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;

/// Each layer with those above it, which it must not name.
const LAYERS: [(&str, &[&str]); 12] = [
    ("agent", &["api", "app", "cli", "objectives", "readiness"]),
    ("tools", &["agent", "api", "app", "cli", "objectives", "readiness"]),
    ("backend", &["tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry"]),
    ("telemetry", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness"]),
    ("chat_template", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry"]),
    ("bridge", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry", "outbound"]),
    ("outbound", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry"]),
    ("clock.rs", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry"]),
    ("trace_context.rs", &["backend", "tools", "agent", "api", "app", "cli", "objectives", "readiness", "telemetry"]),
    ("traces", &["api", "app", "cli", "objectives", "readiness", "access"]),
    ("access", &["agent", "api", "app", "cli", "objectives", "readiness", "backend"]),
    ("api", &["app", "cli", "objectives", "readiness"]),
];

/// Modules whose results depend on their arguments alone.
const PURE: [&str; 82] = [
    "access/jwt.rs",
    "access/keys.rs",
    "access/rates.rs",
    "access/tenant.rs",
    "access/token_file.rs",
    "agent/conversation.rs",
    "agent/chat.rs",
    "agent/dialect/calls.rs",
    "agent/dialect/choose.rs",
    "agent/dialect/deepseek.rs",
    "agent/dialect/granite.rs",
    "agent/dialect/harmony.rs",
    "agent/dialect/hermes.rs",
    "agent/dialect/json.rs",
    "agent/dialect/llama3.rs",
    "agent/dialect/llama4.rs",
    "agent/dialect/mistral.rs",
    "agent/dialect/mod.rs",
    "agent/dialect/phi4.rs",
    "agent/dialect/python.rs",
    "agent/dialect/qwen3_coder.rs",
    "agent/dialect/scan.rs",
    "agent/step/chat.rs",
    "agent/tool_list.rs",
    "api/sampling.rs",
    "backend/sampling.rs",
    "agent/chat/calls.rs",
    "agent/chat/generated.rs",
    "agent/chat/messages.rs",
    "agent/chat/vocabulary.rs",
    "agent/grammar.rs",
    "agent/marks.rs",
    "agent/state/failure.rs",
    "agent/step/prompt.rs",
    "agent/transcript.rs",
    "agent/places.rs",
    "agent/prompt.rs",
    "agent/room.rs",
    "agent/state.rs",
    "agent/step.rs",
    "agent/timings.rs",
    "api/chat/request.rs",
    "api/responses/items.rs",
    "api/responses/request.rs",
    "api/responses/writer.rs",
    "api/runs/view.rs",
    "backend/open_ai/chat.rs",
    "backend/open_ai/reader.rs",
    "backend/open_ai/request.rs",
    "backend/overflow.rs",
    "backend/tokens/answer.rs",
    "backend/tokens/detokenizer.rs",
    "backend/tokens/stop_words.rs",
    "backend/triton/configuration.rs",
    "backend/triton/llm_api.rs",
    "backend/triton/sampling.rs",
    "backend/triton/tensor.rs",
    "backend/triton/text.rs",
    "backend/triton/tokens.rs",
    "backend/triton/vllm.rs",
    "chat_template/environment.rs",
    "chat_template/python.rs",
    "chat_template/tags.rs",
    "ordered_value.rs",
    "outbound/pause.rs",
    "outbound/retry_after.rs",
    "telemetry/engine_load.rs",
    "telemetry/recorder.rs",
    "telemetry/values.rs",
    "tools/arguments.rs",
    "tools/calculator.rs",
    "tools/calculator/fraction.rs",
    "events.rs",
    "tools/mcp/content.rs",
    "tools/mcp/listing.rs",
    "tools/mcp/message.rs",
    "tools/mcp/mirror.rs",
    "tools/service/breaker.rs",
    "tools/shown.rs",
    "trace_context.rs",
    "traces/otlp.rs",
    "traces/spans.rs",
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

/// Whether a source imports or names a module of this crate. An import may span lines, so statements are looked at.
fn names_module(text: &str, module: &str) -> bool {
    let is_module = |word: &str| word == module || word.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"));
    let imports = |statement: &str| {
        let path = statement.split_once("use crate::").map_or("", |(_, path)| path);
        path.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').any(is_module)
    };
    text.split(';').any(imports) || text.contains(&format!("crate::{module}::"))
}

#[test]
fn an_import_is_recognized() {
    let imports = [
        "use crate::api::Service;",
        "use crate::{\n    clock::Clock,\n    api::{self, error},\n};",
        "crate::api::run()",
    ];
    assert_eq!(imports.map(|text| names_module(text, "api")), [true; 3]);
    assert!(!names_module("use crate::{clock::Clock, rapid::api};", "api"));
    let app = fs::read_to_string(source("app.rs")).expect("the module exists");
    assert!(["agent", "api", "backend", "readiness", "tools"].iter().all(|module| names_module(&app, module)));
}

#[test]
fn no_layer_imports_one_above() {
    let mut found = Vec::new();
    for (layer, above) in LAYERS {
        for file in files(source(layer)).into_iter().filter(|file| is_code(file)) {
            let text = fs::read_to_string(&file).expect("sources are text");
            let named = above.iter().filter(|module| names_module(&text, module));
            found.extend(named.map(|module| format!("{} names {module}", file.display())));
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
