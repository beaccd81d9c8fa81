//! Tables as AIConfigurator writes them, and the engines that their rows are of.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    agent_deployment::{EngineEntry, KvCachePrecision, NoBuildBackend, Precision, ServedBy},
    profile::{EngineAxes, ExpectedLevel},
};

use super::{Sought, Subject, Table, expected};

/// The header of AIConfigurator 0.11's `pareto.csv`.
const HEADER: &str = "model,isl,osl,prefix,concurrency,request_rate,bs,global_bs,ttft,tpot,request_latency,\
    encoder_latency,encoder_memory,seq/s,seq/s/gpu,tokens/s,tokens/s/gpu,tokens/s/user,num_total_gpus,tp,pp,dp,moe_tp,\
    moe_ep,cp,parallel,gemm,kvcache,fmha,moe,comm,memory,balance_score,num_ctx_reqs,num_gen_reqs,num_tokens,ctx_tokens,\
    gen_tokens,backend,version,system,power_w";

/// A row as it writes one; what is given is what differs.
#[derive(Clone, Copy)]
struct Written {
    model: &'static str,
    isl: u32,
    concurrency: u32,
    per_second: &'static str,
    ttft: &'static str,
    tp: u32,
    moe_ep: u32,
    gemm: &'static str,
    kv_cache: &'static str,
    backend: &'static str,
    system: &'static str,
}

const ROW: Written = Written {
    model: "Qwen/Qwen3-32B",
    isl: 4000,
    concurrency: 8,
    per_second: "0.5",
    ttft: "412.125",
    tp: 2,
    moe_ep: 1,
    gemm: "fp8",
    kv_cache: "fp8",
    backend: "trtllm",
    system: "h200_sxm",
};

fn line(row: Written) -> String {
    let Written { model, isl, concurrency, per_second, ttft, tp, moe_ep, gemm, kv_cache, backend, system } = row;
    format!(
        "{model},{isl},1000,0,{concurrency},{per_second},{concurrency},{concurrency},{ttft},15.5,15896.625,0.0,0.0,\
         {per_second},0.25,500.0,250.0,64.516,{tp},{tp},1,1,1,{moe_ep},1,tp{tp}pp1dp1etp1ep{moe_ep},{gemm},{kv_cache},\
         fp8,bfloat16,half,48.25,1.02,1.0,7.0,4007.0,4000.0,7.0,{backend},1.2.0rc5,{system},512.4"
    )
}

fn text(rows: &[Written]) -> String {
    let lines = rows.iter().map(|row| line(*row));
    std::iter::once(HEADER.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

fn table(rows: &[Written]) -> Table {
    Table::read(&text(rows)).expect("a table")
}

fn axes(precision: Precision, tensor_parallel: i32) -> EngineAxes {
    EngineAxes {
        precision,
        kv_cache_precision: Some(KvCachePrecision::FP8),
        tensor_parallel: Some(tensor_parallel),
        pipeline_parallel: Some(1),
        max_batch_size: Some(64),
        max_num_tokens: Some(8192),
        variant: String::new(),
    }
}

const OF_TOOLS: ServedBy = ServedBy::TensorRtLlm { ranks: 2, entry: EngineEntry::Engine };

const SUBJECT: Subject<'_> = Subject { model: "hf://Qwen/Qwen3-32B@main", levels: &[4, 8, 16, 32, 64] };

/// An engine on an H200.
fn sought(served_by: ServedBy, axes: EngineAxes) -> Sought {
    Sought { served_by, gpu_product: "NVIDIA-H200".to_owned(), axes }
}

/// What is expected of an FP8 engine of two GPUs: levels with requests per 1,000 seconds.
fn of_fp8(rows: &[Written]) -> Result<Vec<(i32, i64)>, String> {
    let all = expected(&table(rows), SUBJECT, &[sought(OF_TOOLS, axes(Precision::FP8, 2))])?;
    Ok(all[0].iter().map(|of| (of.level, of.per_kilosecond)).collect())
}

#[test]
fn a_row_of_upstreams_table_is_what_is_expected_at_its_level() {
    let all = expected(&table(&[ROW]), SUBJECT, &[sought(OF_TOOLS, axes(Precision::FP8, 2))]);
    let level = ExpectedLevel {
        level: 8,
        per_kilosecond: 500,
        request_microseconds: 15_896_625,
        first_token_microseconds: 412_125,
        inter_token_microseconds: 15_500,
    };
    assert_eq!(all, Ok(vec![vec![level]]));
}

#[test]
fn between_two_rows_a_level_lies_on_the_line_in_logarithms_and_beyond_them_nothing_is_expected() {
    let rows = [ROW, Written { concurrency: 32, per_second: "2.0", ..ROW }];
    assert_eq!(of_fp8(&rows), Ok(vec![(8, 500), (16, 1000), (32, 2000)]));
}

#[test]
fn of_rows_at_one_load_the_fastest_counts_and_the_file_may_be_written_with_decimals() {
    let slow = Written { per_second: "0.4", ..ROW };
    assert_eq!(of_fp8(&[slow, ROW, slow]), Ok(vec![(8, 500)]));
    let decimals = text(&[ROW]).replace(",8,0.5,", ",8.0,0.5,").replace(",2,2,1,1,", ",2,2.0,1.0,1,");
    let read = Table::read(&format!("{}\r\n", decimals.replace('\n', "\r\n")));
    assert_eq!(read, Ok(table(&[ROW])));
}

#[test]
fn a_table_without_latencies_of_requests_has_those_of_littles_law() {
    let short =
        "model,system,backend,concurrency,tp,gemm,seq/s,ttft,tpot\nQWEN3_32B,h200_sxm,trtllm,8,2,fp8,0.5,400,15\n";
    let engine = EngineAxes { kv_cache_precision: None, ..axes(Precision::FP8, 2) };
    let all = expected(&Table::read(short).expect("a table"), SUBJECT, &[sought(OF_TOOLS, engine)])
        .expect("it is of the model");
    assert_eq!(all[0][0].request_microseconds, 16_000_000);
}

#[rstest]
#[case(Written { tp: 4, ..ROW }, "1 of another split over GPUs (tp, pp, dp, cp, moe_ep)")]
#[case(Written { moe_ep: 2, ..ROW }, "1 of another split over GPUs (tp, pp, dp, cp, moe_ep)")]
#[case(Written { gemm: "bfloat16", ..ROW }, "1 of another precision (gemm, moe)")]
#[case(Written { kv_cache: "bfloat16", ..ROW }, "1 of another KV cache (kvcache)")]
#[case(Written { backend: "vllm", ..ROW }, "1 of another backend")]
#[case(Written { system: "h100_sxm", ..ROW }, "1 of another GPU")]
#[case(
    Written { concurrency: 128, ..ROW },
    "1 of a concurrency whose range has no level of search.concurrency"
)]
fn a_row_of_something_else_is_not_used_and_counted_where_none_is(#[case] other: Written, #[case] counted: &str) {
    let words = format!(
        "of its 1 rows of this model none is of an engine of trtllm on NVIDIA-H200: {counted}; give a table of the \
         search space, or remove spec.profiling.prior"
    );
    assert_eq!(of_fp8(&[other]), Err(words));
    // A split that nobody has is as good as no row.
    if other.concurrency == ROW.concurrency {
        assert_eq!(of_fp8(&[ROW, Written { per_second: "0.9", ..other }]), Ok(vec![(8, 500)]));
    }
}

#[test]
fn rows_that_miss_for_several_reasons_are_counted_by_each() {
    let rows = [Written { backend: "sglang", ..ROW }, Written { system: "b200_sxm", ..ROW }, Written { tp: 8, ..ROW }];
    let words = of_fp8(&rows).expect_err("none is of the engine");
    let counted = "1 of another backend, 1 of another GPU, 1 of another split over GPUs (tp, pp, dp, cp, moe_ep); give";
    assert!(words.contains(counted), "{words}");
}

#[rstest]
#[case("hf://Qwen/Qwen3-32B@main", "QWEN3_32B")]
#[case("hf://Qwen/Qwen3-32B", "Qwen/Qwen3-32B")]
#[case("pvc://models/checkpoints/qwen3-32b/", "/raid/Qwen3-32B")]
fn a_model_has_the_names_that_people_give_it(#[case] model: &'static str, #[case] written: &'static str) {
    let all = expected(
        &table(&[Written { model: written, ..ROW }]),
        Subject { model, ..SUBJECT },
        &[sought(OF_TOOLS, axes(Precision::FP8, 2))],
    );
    assert_eq!(all.map(|all| all[0].len()), Ok(1));
}

#[test]
fn a_table_of_another_model_is_refused_with_both_names() {
    let subject = Subject { model: "hf://meta-llama/Llama-3.1-8B@main", ..SUBJECT };
    let rows = [ROW, Written { model: "Qwen/Qwen3-32B-FP8", ..ROW }];
    assert_eq!(
        expected(&table(&rows), subject, &[sought(OF_TOOLS, axes(Precision::FP8, 2))]),
        Err("its rows are of Qwen/Qwen3-32B, Qwen/Qwen3-32B-FP8, and spec.model.uri is \
             hf://meta-llama/Llama-3.1-8B@main: give AIConfigurator that model, or correct the column model"
            .to_owned())
    );
}

#[test]
fn rows_of_several_kinds_of_requests_are_refused() {
    assert_eq!(
        of_fp8(&[ROW, Written { isl: 800, ..ROW }]),
        Err("its rows are of 2 kinds of requests (isl 4000, osl 1000, prefix 0; isl 800, osl 1000, prefix 0): keep the \
             rows of one"
            .to_owned())
    );
}

#[test]
fn an_engine_whose_cache_is_not_named_has_the_rows_of_16_bits_if_there_are_some() {
    let engine = EngineAxes { kv_cache_precision: Some(KvCachePrecision::Auto), ..axes(Precision::FP8, 2) };
    let of = |rows: &[Written]| {
        let all = expected(&table(rows), SUBJECT, &[sought(OF_TOOLS, engine.clone())]).expect("rows of it");
        all[0].iter().map(|of| of.per_kilosecond).collect::<Vec<_>>()
    };
    let usual = Written { kv_cache: "bfloat16", per_second: "0.3", ..ROW };
    assert_eq!((of(&[ROW]), of(&[ROW, usual])), (vec![500], vec![300]));
}

#[test]
fn backends_without_a_build_have_rows_of_their_own() {
    let vllm = ServedBy::NoBuild(NoBuildBackend::VLLMOpenAI);
    let py_torch = ServedBy::NoBuild(NoBuildBackend::TensorRTLLMPyTorch);
    let rows = [ROW, Written { backend: "vllm", per_second: "0.7", ..ROW }];
    let engines = [vllm, py_torch].map(|served_by| sought(served_by, axes(Precision::FP8, 2)));
    let all = expected(&table(&rows), SUBJECT, &engines).expect("rows of both");
    assert_eq!([all[0][0].per_kilosecond, all[1][0].per_kilosecond], [700, 500]);
}

#[rstest]
#[case::words(
    "expectations",
    "its first line lacks the columns model, system, backend, concurrency, tp, gemm, seq/s, ttft, tpot: take AIConfigurator's pareto.csv or best_config_topn.csv as it is"
)]
#[case::another_table(
    "model,system,backend,tp,gemm,ttft,tpot\na,b,c,1,fp8,1,1",
    "its first line lacks the columns concurrency, seq/s: take AIConfigurator's pareto.csv or best_config_topn.csv as it is"
)]
#[case::disaggregated(
    "model,concurrency,(p)tp,(d)tp,ttft,tpot,seq/s\n",
    "it is of disaggregated serving, which no engine here is: take the file of folder agg"
)]
#[case::a_header_alone(HEADER, "it has no rows below its header: add some")]
fn what_is_no_such_table_is_refused(#[case] text: &str, #[case] words: &str) {
    assert_eq!(Table::read(text), Err(words.to_owned()));
}

#[rstest]
#[case::zero(Written { ttft: "0.0", ..ROW }, "line 3, column ttft: \"0.0\" is not a positive number: correct the line, or remove it")]
#[case::negative(Written { per_second: "-1", ..ROW }, "line 3, column seq/s: \"-1\" is not a positive number: correct the line, or remove it")]
#[case::infinite(Written { per_second: "inf", ..ROW }, "line 3, column seq/s: \"inf\" is not a positive number: correct the line, or remove it")]
#[case::not_a_number(Written { ttft: "NaN", ..ROW }, "line 3, column ttft: \"NaN\" is not a positive number: correct the line, or remove it")]
#[case::a_word(Written { ttft: "fast", ..ROW }, "line 3, column ttft: \"fast\" is not a positive number: correct the line, or remove it")]
#[case::empty(Written { ttft: "", ..ROW }, "line 3, column ttft: \"\" is not a positive number: correct the line, or remove it")]
#[case::no_such_time(Written { ttft: "1e300", ..ROW }, "line 3, column ttft: \"1e300\" is not below a billion: correct the line, or remove it")]
fn a_cell_that_is_no_number_is_named_by_line_and_column(#[case] bad: Written, #[case] words: &str) {
    assert_eq!(Table::read(&text(&[ROW, bad])), Err(words.to_owned()));
}

#[test]
fn a_share_of_a_gpu_is_no_split() {
    let half = text(&[ROW]).replace(",2,2,1,1,", ",2,2.5,1,1,");
    let words = "line 2, column tp: \"2.5\" is not a whole number: correct the line, or remove it";
    assert_eq!(Table::read(&half), Err(words.to_owned()));
}

#[test]
fn a_line_of_another_length_is_named() {
    let words = Table::read(&format!("{}\n1,2,3\n", text(&[ROW]))).expect_err("a line is short");
    assert!(words.starts_with("it is not a CSV table: ") && words.contains("line: 3"), "{words}");
    assert!(words.ends_with("; take AIConfigurator's pareto.csv or best_config_topn.csv as it is"), "{words}");
}

#[test]
fn a_table_has_bounds() {
    let short = |rows: usize| {
        let header = "model,system,backend,concurrency,tp,gemm,seq/s,ttft,tpot\n";
        format!("{header}{}", "m,l4,vllm,8,1,fp8,1,1,1\n".repeat(rows))
    };
    assert!(Table::read(&short(5_000)).is_ok());
    let words = "it has more than 5000 rows: keep those of this model, GPU and backend";
    assert_eq!(Table::read(&short(5_001)), Err(words.to_owned()));
    let long = " ".repeat(1024 * 1024 + 1);
    let words = "it has 1048577 bytes, and a table 1048576 at most: remove rows";
    assert_eq!(Table::read(&long), Err(words.to_owned()));
    assert!(table(&[ROW; 9]).bytes() < 1_000);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\n\"]{0,200}", rows in "[0-9a-z.,\"\n-]{0,200}") {
        let _ = Table::read(&text);
        let _ = Table::read(&format!("{HEADER}\n{rows}"));
    }

    #[test]
    fn what_is_expected_lies_between_the_rows_beside_it(low in 0_usize..5, high in 0_usize..5) {
        const RATES: [(&str, i64); 5] = [("0.001", 1), ("0.35", 350), ("0.352", 352), ("7", 7_000), ("1234.5", 1_234_500)];
        let (low, high) = (RATES[low], RATES[high]);
        let rows = [Written { per_second: low.0, ..ROW }, Written { concurrency: 64, per_second: high.0, ..ROW }];
        for (_, rate) in of_fp8(&rows).expect("rows of it") {
            prop_assert!((low.1.min(high.1)..=low.1.max(high.1)).contains(&rate), "{rate}");
        }
    }
}
