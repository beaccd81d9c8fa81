//! How a supervised server ended, in words and as a failure class. Pure.

use slipway_worker_contract::{FailureClass, Message};

use super::exceptions::raised;

/// How the server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The program.
    pub program: String,
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The last lines of its output.
    pub tail: Vec<String>,
}

const SIGKILL: i32 = 9;
/// Lines by which a failure is classed where no process of vLLM raised anything.
const LAST_LINES: usize = 40;
/// Of systems, CUDA and engines: texts of vllm/v1/worker/utils.py, vllm/v1/core/kv_cache_utils.py, and of SGLang's
/// model_executor/model_runner.py, and of TensorRT-LLM's _torch/pyexecutor/py_executor_creator.py.
const MEMORY: [&str; 8] = [
    "out of memory",
    "bad_alloc",
    "cannot allocate memory",
    "no available memory for the cache blocks",
    "less than desired gpu memory utilization",
    "larger than the available kv cache memory",
    "not enough memory. please try to increase --mem-fraction-static",
    "due to insufficient gpu memory",
];

/// Of models and of arguments, the last two by which TensorRT-LLM's server refuses a name in its file and an option.
const REFUSED: [&str; 6] = [
    "failed to load",
    "invalid argument",
    "model configuration",
    "unrecognized arguments",
    "extra inputs are not permitted",
    "no such option",
];

impl Ending {
    /// Returns the container's exit code: the server's own, or 128 + the signal as shells have it.
    pub fn exit_code(&self) -> u8 {
        let code = self.code.or(self.signal.map(|signal| 128 + signal)).unwrap_or(1);
        u8::try_from(code).unwrap_or(1)
    }

    /// Returns the termination message; none if the server ended as it was asked to.
    pub fn message(&self) -> Option<Message> {
        let how = match (self.code, self.signal) {
            (Some(0), _) => return None,
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended for an unknown reason".to_owned(),
        };
        let raised = raised(&self.tail);
        let last = if raised.is_empty() { self.telling_lines().join(" | ") } else { raised.join(" | ") };
        let text = format!("{} {how}; its last output was: {last}", self.program);
        Some(Message::Failed { class: self.class(), text })
    }

    /// The lines that say why, most telling first: errors before what follows them at shutdown.
    fn telling_lines(&self) -> Vec<&str> {
        const MARKS: [&str; 4] = ["error", "fail", "exception", "out of memory"];
        let telling = |line: &&String| MARKS.iter().any(|mark| line.to_ascii_lowercase().contains(mark));
        let errors: Vec<&str> = self.tail.iter().filter(telling).map(String::as_str).take(5).collect();
        if errors.is_empty() { self.tail.iter().rev().take(3).rev().map(String::as_str).collect() } else { errors }
    }

    fn class(&self) -> FailureClass {
        let raised = raised(&self.tail);
        let last = &self.tail[self.tail.len().saturating_sub(LAST_LINES)..];
        let text = if raised.is_empty() { last } else { &raised }.join("\n").to_ascii_lowercase();
        let says = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
        if self.signal == Some(SIGKILL) || says(&MEMORY) {
            FailureClass::InsufficientMemory
        } else if says(&[
            "error while loading shared libraries",
            "incompatible tensorrt version",
            "unable to find backend",
        ]) {
            FailureClass::ImageMismatch
        } else if self.signal.is_some() {
            // A refusal is an exit. What a crash left in the log may be about a model that was refused long before.
            FailureClass::Infrastructure
        } else if says(&REFUSED) {
            FailureClass::BadModel
        } else {
            FailureClass::Infrastructure
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: Option<i32>, signal: Option<i32>, tail: &[&str]) -> Ending {
        let tail = tail.iter().map(|line| (*line).to_owned()).collect();
        Ending { program: "tritonserver".into(), code, signal, tail }
    }

    #[test]
    fn the_line_that_says_why_comes_before_what_triton_writes_when_it_stops() {
        let ending = ended(
            Some(1),
            None,
            &[
                "E1121 model_lifecycle.cc:642] failed to load 'agent' version 1: Internal: no module named onnxruntime",
                "I1121 server.cc:304] Waiting for in-flight requests to complete.",
                "I1121 server.cc:345] Timeout 30: Found 0 live models",
            ],
        );
        let expected = "tritonserver exited with code 1; its last output was: E1121 model_lifecycle.cc:642] failed to \
                        load 'agent' version 1: Internal: no module named onnxruntime";
        assert_eq!(
            ending.message(),
            Some(Message::Failed { class: FailureClass::BadModel, text: expected.to_owned() })
        );
        assert_eq!(ending.exit_code(), 1);
    }

    #[test]
    fn a_kill_is_taken_for_the_memory_limit() {
        let ending = ended(None, Some(9), &["loading", "loading more"]);
        assert_eq!(ending.exit_code(), 137);
        let Some(Message::Failed { class, text }) = ending.message() else { panic!("a failure") };
        assert_eq!(class, FailureClass::InsufficientMemory);
        assert_eq!(text, "tritonserver was ended by signal 9; its last output was: loading | loading more");
    }

    /// Triton's log still had the refusal of a configuration that was tried before.
    #[test]
    fn a_crash_is_no_refusal_of_the_model() {
        let tail = ["E1121 model_lifecycle.cc:642] failed to load 'agent' version 1", "Signal (11) received."];
        let ending = ended(None, Some(11), &tail);
        let text = format!("tritonserver was ended by signal 11; its last output was: {}", tail[0]);
        assert_eq!(ending.message(), Some(Message::Failed { class: FailureClass::Infrastructure, text }));
    }

    #[test]
    fn classes_follow_from_what_was_written() {
        let class = |line| ended(Some(1), None, &[line]).class();
        assert_eq!(class("CUDA error: out of memory"), FailureClass::InsufficientMemory);
        assert_eq!(class("libnvinfer.so.10: error while loading shared libraries"), FailureClass::ImageMismatch);
        assert_eq!(class("ValueError: No available memory for the cache blocks."), FailureClass::InsufficientMemory);
        assert_eq!(class("vllm: error: unrecognized arguments: --enforce-eagerly"), FailureClass::BadModel);
        let unknown = "  Extra inputs are not permitted [type=extra_forbidden, input_value=True, input_type=bool]";
        assert_eq!(class(unknown), FailureClass::BadModel);
        assert_eq!(class("Error: No such option: --tp"), FailureClass::BadModel);
        let memory = "RuntimeError: Executor creation failed due to insufficient GPU memory.";
        assert_eq!(class(memory), FailureClass::InsufficientMemory);
        assert_eq!(class("something else"), FailureClass::Infrastructure);
    }

    #[test]
    fn memory_that_vllms_engine_lacks_is_found_behind_the_servers_own_exception() {
        let engine = "(EngineCore pid=9) ValueError: No available memory for the cache blocks.".to_owned();
        let server = "(APIServer pid=1) RuntimeError: Engine core initialization failed.".to_owned();
        let between = (0..80).map(|n| format!("(APIServer pid=1)   File \"api_server.py\", line {n}"));
        let tail: Vec<String> = std::iter::once(engine).chain(between).chain([server]).collect();
        let ending = Ending { program: "vllm".into(), code: Some(1), signal: None, tail };
        let text = "vllm exited with code 1; its last output was: ValueError: No available memory for the cache \
                    blocks. | RuntimeError: Engine core initialization failed.";
        let expected = Message::Failed { class: FailureClass::InsufficientMemory, text: text.to_owned() };
        assert_eq!(ending.message(), Some(expected));
    }

    #[test]
    fn an_orderly_end_has_no_message() {
        assert_eq!(ended(Some(0), None, &["bye"]).message(), None);
    }
}
