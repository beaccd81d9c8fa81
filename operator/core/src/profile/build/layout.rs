//! Where things are in a pod that measures, as the pod and the task say alike. Pure.

/// Where the agent runtime listens for the worker.
pub const AGENT_API_ADDRESS: &str = "127.0.0.1:8080";
/// Folder of the recorded runs.
pub const TRACE_FOLDER: &str = "/slipway/trace";
/// File of the recorded runs.
pub const TRACE_FILE: &str = "trace.jsonl";
/// File of a workload's prompts.
pub const PROMPTS_FILE: &str = "prompts.jsonl";

/// Folder of a workload's prompts, by its place in the inputs.
pub fn prompts_folder(index: usize) -> String {
    format!("/slipway/prompts/{index}")
}
