//! Which of Triton's doors are open, and what its words say of its processes. Pure.
//!
//! `--model-control-mode=explicit` comes with APIs that load code and unload models, and asks nobody for a key. So
//! Triton listens on loopback, where only containers of its pod reach it. Its metrics, which only tell, stay on all
//! addresses: the kubelet asks them whether Triton has started, and a Prometheus may.
//!
//! Options: triton-inference-server/server, src/command_line_parser.cc. `--http-restricted-api` came with 2.40 (23.11).

/// Port of Triton's metrics.
pub const METRICS_PORT: u16 = 8002;
/// Where the metrics are. Triton opens its ports together, once the models are loaded that it loads at start
/// (src/main.cc).
pub const METRICS_PATH: &str = "/metrics";

/// All groups of APIs but health and inference.
const CONTROL: &str = "metadata,shared-memory,model-config,model-repository,statistics,trace,logging";

/// The header that opens the groups. There is no such header: a colon ends the name of one, and gRPC knows no such key.
/// So nothing is kept secret, and nothing in the pod can be talked into sending it.
const NO_HEADER: &str = "no:header=opens";

/// Arguments with which only the pod itself reaches HTTP and gRPC.
#[must_use]
pub fn on_loopback() -> Vec<String> {
    // The metrics would follow the address of HTTP.
    ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=0.0.0.0"].map(str::to_owned).to_vec()
}

/// Arguments that shut everything but health and inference, to the pod itself too.
#[must_use]
pub fn only_inference() -> Vec<String> {
    shut(CONTROL)
}

/// Arguments that shut everything but health, inference and, on gRPC, questions for a model's configuration. These only
/// tell what the model takes, and the sidecar compares it with what it sends.
#[must_use]
pub fn only_inference_and_configuration() -> Vec<String> {
    shut(&CONTROL.replace("model-config,", ""))
}

fn shut(on_grpc: &str) -> Vec<String> {
    vec![
        format!("--http-restricted-api={CONTROL}:{NO_HEADER}"),
        format!("--grpc-restricted-protocol={on_grpc}:{NO_HEADER}"),
    ]
}

/// Whether Triton says that a process of its Python backend is gone or stuck. The server lives on and starts the
/// process again, so its health does not tell.
///
/// Words: triton-inference-server/python_backend, src/python_be.cc and src/stub_launcher.cc.
#[must_use]
pub fn lost_a_process(words: &str) -> bool {
    let says_so = |line: &str| {
        (line.contains("Stub process") && line.contains("is not healthy"))
            || line.contains("Failed to obtain the health mutex")
    };
    words.lines().any(says_so)
}

#[cfg(test)]
mod tests {
    use super::{lost_a_process, only_inference, only_inference_and_configuration};

    #[test]
    fn the_configuration_of_models_is_told_on_grpc_alone() {
        let http = "--http-restricted-api=metadata,shared-memory,model-config,model-repository,statistics,trace,logging:\
                    no:header=opens";
        let grpc = "--grpc-restricted-protocol=metadata,shared-memory,model-repository,statistics,trace,logging:\
                    no:header=opens";
        assert_eq!(only_inference_and_configuration(), [http, grpc]);
        assert_eq!(only_inference()[0], http);
    }

    #[test]
    fn a_process_of_the_python_backend_that_is_gone_is_told_by_tritons_words() {
        let lost = [
            "Stub process 'tensorrt_llm_bls_0_1' is not healthy.",
            "Failed to process the request(s) for model instance 'agent_0', message: Stub process is not healthy.",
            "in bls: Failed to obtain the health mutex.",
        ];
        assert!(lost.into_iter().all(lost_a_process));
        let answered = ["prompt length 9000 exceeds 4096", "Stub process started\nthe model is not healthy food", ""];
        assert!(!answered.into_iter().any(lost_a_process));
    }
}
