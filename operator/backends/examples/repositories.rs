//! Fills templates of several releases in every way; `tests/repositories.sh` reads the results with Triton's own
//! protobuf.
//!
//! `repositories TEMPLATES OUT`: TEMPLATES holds `<release>/<model>/config.pbtxt`, OUT receives
//! `<release>-<entry>-<plain|all>/<model>/config.pbtxt`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use slipway_backends::tensorrt_llm::repository::{BatchSchedulerPolicy, Serving, repository};
use slipway_vocabulary::serving::EngineEntry;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [templates, out] = &arguments[..] else {
        return Err("usage: repositories TEMPLATES OUT".into());
    };
    for release in fs::read_dir(templates)? {
        let release = release?;
        let filled = release_templates(&release.path())?;
        for entry in [EngineEntry::Engine, EngineEntry::Ensemble, EngineEntry::BLS] {
            for (name, serving) in
                [("plain", Serving::new("/models/engine", "/models/tokenizer", 64)), ("all", all_set())]
            {
                let repository = repository(entry, &serving, &filled)?;
                let folder = format!("{}-{}-{name}", release.file_name().to_string_lossy(), entry.model());
                for (model, text) in repository.configs {
                    let folder = Path::new(out).join(&folder).join(model);
                    fs::create_dir_all(&folder)?;
                    fs::write(folder.join("config.pbtxt"), text)?;
                }
            }
        }
    }
    Ok(())
}

fn release_templates(folder: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut templates = BTreeMap::new();
    for model in fs::read_dir(folder)? {
        let model = model?;
        let text = fs::read_to_string(model.path().join("config.pbtxt"))?;
        templates.insert(model.file_name().to_string_lossy().into_owned(), text);
    }
    Ok(templates)
}

fn all_set() -> Serving {
    Serving {
        scheduler: BatchSchedulerPolicy::MaxUtilization,
        queue_delay_microseconds: 100,
        queue_size: 1000,
        max_tokens_in_kv_cache: Some(100_000),
        kv_cache_host_bytes: Some(1 << 30),
        attention_windows: vec![4096, 8192],
        sink_tokens: Some(4),
        cuda_graphs: true,
        cuda_graph_cache_size: Some(16),
        multi_block: Some(true),
        context_fp32_accumulation: true,
        decoding_mode: Some("top_k_top_p".into()),
        gpu_device_ids: vec![0, 1],
        gpu_weights_percent: Some(80),
        cancellation_check_ms: Some(50),
        stats_check_ms: Some(50),
        lora_host_bytes: Some(1 << 30),
        lora_gpu_percent: Some(5),
        lora_max_rank: Some(64),
        has_half_logits: true,
        accumulates: true,
        // Quotes and backslashes must survive as they are.
        ..Serving::new("/models/an \"odd\\engine\"", "/models/tokenizer", 64)
    }
}
