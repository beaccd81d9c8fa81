//! Templates made of the placeholders of each release fill completely.

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::Value;

use super::*;

const PLACEHOLDERS: &str = include_str!("../../../tests/data/placeholders.json");

fn serving(max_batch_size: u32) -> Serving {
    Serving::new("/models/engine", "/models/tokenizer", max_batch_size)
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// A template with a release's placeholders, in the manner of upstream's.
fn template(model: &str, sets: &Value) -> String {
    let mut text = format!("# made for tests: ${{not_a_placeholder}}\nname: \"{model}\"\n");
    for name in names(&sets["bare"]) {
        text += &match name {
            "triton_max_batch_size" => format!("max_batch_size: ${{{name}}}\n"),
            "decoupled_mode" => format!("model_transaction_policy {{ decoupled: ${{{name}}} }}\n"),
            "max_queue_delay_microseconds" => {
                format!("dynamic_batching {{ max_queue_delay_microseconds: ${{{name}}} }}\n")
            }
            "max_queue_size" => {
                format!("dynamic_batching {{ default_queue_policy: {{ max_queue_size: ${{{name}}} }} }}\n")
            }
            _ if name.ends_with("_instance_count") => {
                format!("instance_group [ {{ count: ${{{name}}} kind: KIND_CPU }} ]\n")
            }
            _ => format!("input [ {{ name: \"{name}\" data_type: ${{{name}}} dims: [ -1 ] optional: true }} ]\n"),
        };
    }
    for name in names(&sets["quoted"]) {
        text += &match name {
            "triton_backend" => format!("backend: \"${{{name}}}\"\n"),
            _ => format!("parameters: {{ key: \"{name}\" value: {{ string_value: \"${{{name}}}\" }} }}\n"),
        };
    }
    text
}

fn templates(release: &Value) -> BTreeMap<String, String> {
    release.as_object().unwrap().iter().map(|(model, sets)| (model.clone(), template(model, sets))).collect()
}

fn releases() -> BTreeMap<String, BTreeMap<String, String>> {
    let all: BTreeMap<String, Value> = serde_json::from_str(PLACEHOLDERS).unwrap();
    all.iter().map(|(release, models)| (release.clone(), templates(models))).collect()
}

/// Everything that can be set, set.
fn all_set() -> Serving {
    Serving {
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
        ..serving(64)
    }
}

fn bare_left(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter(|line| line.contains("${") && !line.contains("\"${")).collect()
}

#[test]
fn templates_of_every_release_fill_completely() {
    let releases = releases();
    assert_eq!(releases.len(), 6);
    for (release, templates) in &releases {
        for entry in [EngineEntry::Engine, EngineEntry::Ensemble, EngineEntry::BLS] {
            for serving in [serving(64), all_set()] {
                let repository = repository(entry, &serving, templates).unwrap();
                assert_eq!(repository.configs.keys().count(), entry.models().len());
                for text in repository.configs.values() {
                    assert_eq!(bare_left(text), Vec::<&str>::new(), "{release}");
                }
                assert_eq!(repository.unused, BTreeSet::new(), "{release}");
            }
        }
    }
}

#[test]
fn an_unknown_bare_placeholder_fails_and_a_quoted_one_stays() {
    let templates =
        |text: &str| BTreeMap::from([("tensorrt_llm".to_owned(), format!("name: \"x\"\n{text}\n# ${{comment}}\n"))]);
    let serving = serving(8);
    let error = repository(EngineEntry::Engine, &serving, &templates("max_batch_size: ${new_thing}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensorrt_llm/config.pbtxt: line 2: placeholder new_thing is unknown, and protobuf text cannot hold it unfilled; report the image"
    );
    let text =
        &repository(EngineEntry::Engine, &serving, &templates("v: \"${new_thing}\"")).unwrap().configs["tensorrt_llm"];
    assert_eq!(text, "name: \"x\"\nv: \"${new_thing}\"\n# ${comment}\n");
    let error = repository(EngineEntry::Engine, &serving, &templates("x: ${open")).unwrap_err();
    assert_eq!(error.to_string(), "tensorrt_llm/config.pbtxt: line 2: a placeholder is not closed");
}

#[test]
fn a_value_cannot_leave_its_quotes() {
    let values = BTreeMap::from([("engine_dir", "/a\"b\\c\nd".to_owned())]);
    assert_eq!(fill("p: \"${engine_dir}\"\n", &values).unwrap().text, "p: \"/a\\\"b\\\\c\\nd\"\n");
}

#[test]
fn an_option_without_a_place_is_told() {
    let templates = BTreeMap::from([("tensorrt_llm".to_owned(), "backend: \"${triton_backend}\"\n".to_owned())]);
    let serving = Serving { sink_tokens: Some(4), ..serving(8) };
    let unused = repository(EngineEntry::Engine, &serving, &templates).unwrap().unused;
    assert!(unused.contains("sink_token_length") && unused.contains("enable_kv_cache_reuse"));
    assert!(!unused.contains("triton_backend"));
}

#[rstest]
#[case(
    Serving { max_batch_size: 0, ..serving(8) },
    "search.maxBatchSize: these templates need a batch of 1 or more; use 1 or more"
)]
#[case(
    Serving { has_paged_context: false, ..serving(8) },
    "search.kvCacheReuse: needs an engine with paged context attention; set engine.tensorRTLLM.pagedContextFMHA"
)]
#[case(
    Serving { has_paged_context: false, kv_cache_reuse: false, ..serving(8) },
    "engine.tensorRTLLM.chunkedContext: needs an engine with paged context attention; set engine.tensorRTLLM.pagedContextFMHA"
)]
#[case(
    Serving { kv_cache_percent: 100, ..serving(8) },
    "search.kvCacheFreeGpuMemory: use 1% to 99% of the memory left after loading"
)]
#[case(
    Serving { max_beam_width: 2, ..serving(8) },
    "engine.tensorRTLLM.maxBeamWidth: beams cannot be streamed; use 1"
)]
fn options_that_contradict_each_other_are_refused(#[case] serving: Serving, #[case] message: &str) {
    let error = repository(EngineEntry::Engine, &serving, &BTreeMap::new()).unwrap_err();
    assert_eq!(error.to_string(), message);
}

/// The values of a repository's placeholders that say how many copies of a model run.
fn instances(entry: EngineEntry, max_batch_size: u32) -> Vec<String> {
    let releases = releases();
    let configs = repository(entry, &serving(max_batch_size), &releases["0.16.0"]).unwrap().configs;
    let count = |(model, text): (&&str, &String)| {
        let (_, count) = text.split_once("{ count: ")?;
        Some(format!("{model} {}", count.split(' ').next()?))
    };
    configs.iter().filter_map(count).collect()
}

#[test]
fn pieces_of_an_ensembles_answer_stay_in_order_and_bls_has_a_copy_for_each_sequence() {
    assert_eq!(instances(EngineEntry::Ensemble, 16), ["postprocessing 1", "preprocessing 4"]);
    assert_eq!(instances(EngineEntry::BLS, 16), ["postprocessing 4", "preprocessing 4", "tensorrt_llm_bls 16"]);
    assert_eq!(instances(EngineEntry::BLS, 2), ["postprocessing 2", "preprocessing 2", "tensorrt_llm_bls 2"]);
}

#[test]
fn an_engine_of_more_sequences_than_bls_has_processes_is_refused() {
    let error = repository(EngineEntry::BLS, &serving(256), &BTreeMap::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "search.maxBatchSize: entry BLS runs a Python process for each of 256 sequences; use 128 or less, or another \
         engine.tensorRTLLM.entry"
    );
    assert_eq!(check_entry(EngineEntry::Ensemble, 256), Ok(()));
}

#[test]
fn an_image_without_a_template_is_named() {
    let error = repository(EngineEntry::Engine, &serving(8), &BTreeMap::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the image has no template for tensorrt_llm: it is not one of TensorRT-LLM 0.15 to 1.2"
    );
    let engine = BTreeMap::from([("tensorrt_llm".to_owned(), String::new())]);
    let error = repository(EngineEntry::Ensemble, &serving(8), &engine).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the image has no template for preprocessing: it is not one of TensorRT-LLM 0.15 to 1.2"
    );
}
