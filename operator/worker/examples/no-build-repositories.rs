//! Writes the serving repositories of engines without a build; `operator/backends/tests/repositories.sh` reads them
//! with Triton's own protobuf.
//!
//! `no-build-repositories LLMAPI OUT`: LLMAPI holds the `llmapi` model as an image has it, OUT receives
//! `vllm/model_repository` and `llmapi/model_repository`.

use std::{error::Error, fs, path::Path};

use slipway_backends::{
    formats::{KvCachePrecision, Parallelism, Precision},
    no_build::{Features, Request, arguments},
};
use slipway_worker::{
    hash,
    no_build::{self, Parts},
};
use slipway_worker_contract::{BuildTask, NoBuild, NoBuildBackend};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [llm_api, out] = &arguments[..] else {
        return Err("usage: no-build-repositories LLMAPI OUT".into());
    };
    let out = Path::new(out);
    let (checkpoint, triton) = (out.join("checkpoint"), out.join("backends"));
    write(&triton.join("vllm/model.py"))?;
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        write(&checkpoint.join(name))?;
    }
    let backends = [("vllm", NoBuildBackend::VLLM, "0.11.0"), ("llmapi", NoBuildBackend::TensorRTLLMPyTorch, "1.2.1")];
    for (name, backend, version) in backends {
        let parts = Parts {
            backends: triton.clone(),
            programs: Vec::new(),
            llm_api: llm_api.into(),
            checkpoint: checkpoint.clone(),
            output: out.join(name),
        };
        let order = NoBuild {
            backend,
            version: version.to_owned(),
            checkpoint: hash::bytes(b"checkpoint"),
            arguments: arguments_of(backend, version)?,
            adapter: None,
        };
        no_build::run(&task(&order), &order, &parts)?;
    }
    Ok(())
}

fn task(order: &NoBuild) -> BuildTask {
    BuildTask {
        identity: "engine-1".to_owned(),
        model: "agent".to_owned(),
        quality: None,
        tensorrt_llm: None,
        no_build: Some(order.clone()),
    }
}

fn arguments_of(backend: NoBuildBackend, version: &str) -> Result<String, Box<dyn Error>> {
    let request = Request {
        backend,
        version: version.to_owned(),
        model: "agent".to_owned(),
        checkpoint: "/slipway/engine/checkpoint".to_owned(),
        precision: Precision::Bf16,
        is_quantized_at_load: false,
        dtype: None,
        kv_cache: KvCachePrecision::Fp8,
        parallelism: Parallelism { tensor: 2, pipeline: 1 },
        max_seq_len: 8192,
        max_batch_size: 64,
        max_num_tokens: 8192,
        memory_ppm: 900_000,
        prefix_caching: true,
        chunked_prefill: true,
        features: Features::default(),
        extra: Vec::new(),
    };
    Ok(arguments(&request)?)
}

fn write(path: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, "")?)
}
