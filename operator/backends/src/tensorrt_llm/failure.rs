//! Why a step failed, from what upstream's tools wrote. Pure.
//!
//! The texts are those of upstream's sources and issues, of argparse, of Hugging Face's loaders and of Linux.
//! Upstream's are PyTorch's and TensorRT's out-of-memory messages. "Version tag does not match" is from
//! issues 190 and 531 of triton-inference-server/tensorrtllm_backend, "incompatible device" from issue 3031 of
//! NVIDIA/TensorRT-LLM. None was read from a run of ours: a text that upstream changes falls through to the step's exit
//! status.

use slipway_vocabulary::FailureClass;

/// A failed step, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// The line that told it, or the log's last line; at most [`MOST_BYTES`].
    pub line: String,
}

/// Bytes of a log line in a condition.
pub const MOST_BYTES: usize = 512;

/// Texts in lower case. The first class with a text anywhere in the log wins. After a lack of memory or disk, tools
/// print many other errors. A mismatch of versions makes a good model look bad.
const TEXTS: [(FailureClass, &[&str]); 5] = [
    (
        FailureClass::Infrastructure,
        &[
            "no space left on device",
            "disk quota exceeded",
            "input/output error",
            "stale file handle",
            "read-only file system",
            "temporary failure in name resolution",
            "connection refused",
            "connection reset by peer",
            "connection timed out",
            "max retries exceeded with url",
            "no cuda-capable device is detected",
            "cuda-capable device(s) is/are busy or unavailable",
            "uncorrectable ecc error",
            "unspecified launch failure",
            "gpu is lost",
            "fallen off the bus",
            "nccl error",
            "unhandled system error",
        ],
    ),
    (
        FailureClass::InsufficientMemory,
        &[
            "cuda out of memory",
            "torch.outofmemoryerror",
            "torch.cuda.outofmemoryerror",
            "cuda error: out of memory",
            "cudaerrormemoryallocation",
            "cuda_error_out_of_memory",
            "requested amount of gpu memory",
            "std::bad_alloc",
            "cannot allocate memory",
            "unable to allocate",
            "memoryerror",
            "defaultcpuallocator: can't allocate memory",
            "out of memory",
        ],
    ),
    (
        FailureClass::ImageMismatch,
        &[
            "version tag does not match",
            "incompatible device, expecting compute",
            "serialized engine version",
            "unrecognized arguments:",
            "invalid choice:",
            "the following arguments are required",
            "modulenotfounderror",
            "cannot import name",
            "error while loading shared libraries",
            "undefined symbol",
            "cuda driver version is insufficient",
            "forward compatibility was attempted on non supported hw",
            "no kernel image is available for execution on the device",
        ],
    ),
    (
        FailureClass::UnsupportedPrecision,
        &[
            "fp8 is not supported",
            "fp8 is unsupported",
            "unsupported data type, pre sm",
            "does not support fp8",
            "requires sm",
            "only supported on sm",
            "is not supported on sm",
            "not supported on this gpu",
            "nvfp4 is not supported",
            "unsupported sm",
            "notimplementederror",
        ],
    ),
    (
        FailureClass::BadModel,
        &[
            "does not appear to have a file named",
            "is not a valid model identifier",
            "unrecognized configuration class",
            "unrecognized model in",
            "model architecture",
            "safetensorerror",
            "headertoolarge",
            "invalidheaderdeserialization",
            "metadataincompletebuffer",
            "unpicklingerror",
            "size mismatch for",
            "jsondecodeerror",
            "must be divisible by",
            "is not divisible by",
            "keyerror",
        ],
    ),
];

/// Explains a step that exited with a status other than 0, from its log.
#[must_use]
pub fn classify(log: &str, exit_code: i32) -> Failure {
    let found = TEXTS.iter().find_map(|(class, texts)| {
        let told = |line: &&str| texts.iter().any(|text| line.to_lowercase().contains(text));
        log.lines().find(told).map(|line| Failure { class: *class, line: shortened(line) })
    });
    found.unwrap_or_else(|| Failure { class: by_status(log, exit_code), line: shortened(last_line(log)) })
}

fn by_status(log: &str, exit_code: i32) -> FailureClass {
    match exit_code {
        // SIGKILL: the kernel's answer to a container that passed its memory limit, while evictions are not seen as
        // exits.
        137 => FailureClass::InsufficientMemory,
        // argparse's status for arguments that it cannot read.
        2 => FailureClass::ImageMismatch,
        // Deterministic in what it was given: trying again would spend the same GPU time for the same end.
        1 if log.contains("Traceback (most recent call last)") => FailureClass::BadModel,
        _ => FailureClass::Infrastructure,
    }
}

/// The last line that is not blank.
#[must_use]
pub fn last_line(log: &str) -> &str {
    log.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("the log is empty")
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    let end = (0..=MOST_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB.",
        1,
        FailureClass::InsufficientMemory
    )]
    #[case(
        "[TRT] [E] Requested amount of GPU memory (34359738368 bytes) could not be allocated.",
        1,
        FailureClass::InsufficientMemory
    )]
    #[case("Loading checkpoint shards: 75%", 137, FailureClass::InsufficientMemory)]
    #[case(
        "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead == \
         kSERIALIZATION_VERSION failed.Version tag does not match. Note: Current Version: 239, Serialized Engine Version: 237)",
        1,
        FailureClass::ImageMismatch
    )]
    #[case("trtllm-build: error: unrecognized arguments: --norm_quant_fusion=enable", 2, FailureClass::ImageMismatch)]
    #[case("RuntimeError: FP8 is not supported on pre SM89 GPUs", 1, FailureClass::UnsupportedPrecision)]
    #[case("OSError: /model does not appear to have a file named config.json.", 1, FailureClass::BadModel)]
    #[case("AssertionError: The number of heads must be divisible by tp_size", 1, FailureClass::BadModel)]
    #[case("OSError: [Errno 28] No space left on device: '/work/checkpoint'", 1, FailureClass::Infrastructure)]
    #[case("NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error", 1, FailureClass::Infrastructure)]
    #[case("something else", 139, FailureClass::Infrastructure)]
    fn upstreams_texts_tell_the_class(#[case] line: &str, #[case] status: i32, #[case] class: FailureClass) {
        let log = format!("[TensorRT-LLM] TensorRT-LLM version: 0.16.0\n{line}\n\n");
        assert_eq!(classify(&log, status), Failure { class, line: line.to_owned() });
    }

    #[test]
    fn the_cause_wins_over_what_follows_from_it() {
        let log =
            "CUDA out of memory. Tried to allocate 2 GiB\nKeyError: 'rank0'\nAssertionError: engine build failed\n";
        let expected = Failure {
            class: FailureClass::InsufficientMemory,
            line: "CUDA out of memory. Tried to allocate 2 GiB".to_owned(),
        };
        assert_eq!(classify(log, 1), expected);
    }

    #[test]
    fn an_unknown_traceback_is_the_models_and_shows_its_last_line() {
        let log = "Traceback (most recent call last):\n  File \"x.py\"\nValueError: odd weights\n";
        assert_eq!(classify(log, 1), Failure { class: FailureClass::BadModel, line: "ValueError: odd weights".into() });
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let log = format!("KeyError {}", "ü".repeat(600));
        let line = classify(&log, 1).line;
        assert!(line.len() <= MOST_BYTES && line.len() > MOST_BYTES - 2);
    }
}
