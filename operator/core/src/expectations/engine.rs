//! Which rows of a table are of an engine, and what they say of its levels. Pure.

use std::collections::{BTreeMap, BTreeSet};

use slipway_crds::v1alpha1::{
    agent_deployment::{KvCachePrecision, NoBuildBackend, Precision, ServedBy},
    profile::{EngineAxes, ExpectedLevel},
};
use slipway_vocabulary::gpu::{Gpu, by_label, by_system};

use super::table::{Curve, Point, Setup, Table, Traffic};

/// Whose expectations are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Reference of the model, as the spec has it.
    pub model: &'a str,
    /// Levels, ascending.
    pub levels: &'a [i32],
}

/// An engine whose rows are looked for.
#[derive(Debug, Clone)]
pub struct Sought {
    /// What serves it.
    pub served_by: ServedBy,
    /// GPU of its pods, by the label `nvidia.com/gpu.product`.
    pub gpu_product: String,
    /// The point of the build axes that it is.
    pub axes: EngineAxes,
}

/// Why a row is of no engine of a campaign. The order is that in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mismatch {
    Backend,
    Gpu,
    Split,
    Precision,
    KvCache,
    Level,
}

impl Mismatch {
    const ALL: [Self; 6] = [Self::Backend, Self::Gpu, Self::Split, Self::Precision, Self::KvCache, Self::Level];

    /// What the rows differ in.
    const fn what(self) -> &'static str {
        match self {
            Self::Backend => "another backend",
            Self::Gpu => "another GPU",
            Self::Split => "another split over GPUs (tp, pp, dp, cp, moe_ep)",
            Self::Precision => "another precision (gemm, moe)",
            Self::KvCache => "another KV cache (kvcache)",
            Self::Level => "a concurrency whose range has no level of search.concurrency",
        }
    }
}

/// What is expected of each of some engines, in their order: level by level, where rows of an engine reach it.
///
/// # Errors
/// In words: that the table is of another model or of several kinds of requests, or that no row is of an engine.
pub fn expected(table: &Table, subject: Subject<'_>, engines: &[Sought]) -> Result<Vec<Vec<ExpectedLevel>>, String> {
    let curves: Vec<(&Setup, &Curve)> =
        table.curves.iter().filter(|(setup, _)| is_same_model(&setup.model, subject.model)).collect();
    if curves.is_empty() {
        let models = table.models().into_iter().take(5).collect::<Vec<_>>().join(", ");
        return Err(format!(
            "its rows are of {models}, and spec.model.uri is {}: give AIConfigurator that model, or correct the column \
             model",
            subject.model
        ));
    }
    one_traffic(&curves)?;
    let of_engine = |engine: &Sought| levels(&curves, subject, engine);
    let expected: Vec<Vec<ExpectedLevel>> = engines.iter().map(of_engine).collect();
    match expected.iter().all(Vec::is_empty) {
        true => Err(of_none(&curves, engines)),
        false => Ok(expected),
    }
}

/// Rows of several lengths would tell engines apart by what they were asked.
fn one_traffic(curves: &[(&Setup, &Curve)]) -> Result<(), String> {
    let all: BTreeSet<&Traffic> = curves.iter().map(|(setup, _)| &setup.traffic).collect();
    let words = |traffic: &&Traffic| format!("isl {}, osl {}, prefix {}", traffic.isl, traffic.osl, traffic.prefix);
    match all.len() {
        0 | 1 => Ok(()),
        count => {
            let some = all.iter().take(3).map(words).collect::<Vec<_>>().join("; ");
            Err(format!("its rows are of {count} kinds of requests ({some}): keep the rows of one"))
        }
    }
}

fn levels(curves: &[(&Setup, &Curve)], subject: Subject<'_>, engine: &Sought) -> Vec<ExpectedLevel> {
    let own = || curves.iter().filter(|(setup, _)| mismatch(setup, engine).is_none());
    // An engine that says nothing of its KV cache has 16 bits, unless its checkpoint says otherwise.
    let is_usual = |setup: &Setup| is_auto(&engine.axes) && is_of_16_bits(&setup.kv_cache);
    let has_usual = own().any(|(setup, _)| is_usual(setup));
    let mut points: BTreeMap<u32, Point> = BTreeMap::new();
    for (load, point) in own().filter(|(setup, _)| !has_usual || is_usual(setup)).flat_map(|(_, curve)| &curve.points) {
        let known = points.entry(*load).or_insert(*point);
        if known.per_kilosecond < point.per_kilosecond {
            *known = *point;
        }
    }
    subject.levels.iter().filter_map(|level| at(&points, *level)).collect()
}

/// What a row's setup differs in from an engine, if anything.
fn mismatch(setup: &Setup, Sought { served_by, gpu_product, axes }: &Sought) -> Option<Mismatch> {
    let parallel = |ways: Option<i32>| ways.and_then(|ways| u32::try_from(ways).ok()).unwrap_or(1);
    let split = (setup.split.tensor_parallel, setup.split.pipeline_parallel);
    let is_split_alike =
        !setup.split.is_more && split == (parallel(axes.tensor_parallel), parallel(axes.pipeline_parallel));
    let alike = [
        (Mismatch::Backend, backend(*served_by) == Some(setup.backend.as_str())),
        (Mismatch::Gpu, is_same_gpu(&setup.system, gpu_product)),
        (Mismatch::Split, is_split_alike),
        (Mismatch::Precision, is_same_precision(setup, axes.precision)),
        (Mismatch::KvCache, is_same_cache(&setup.kv_cache, axes.kv_cache_precision)),
    ];
    alike.into_iter().find(|(_, is_alike)| !is_alike).map(|(mismatch, _)| mismatch)
}

/// The words for a table of which no row is of an engine, with the number of rows for each reason.
fn of_none(curves: &[(&Setup, &Curve)], engines: &[Sought]) -> String {
    let mut rows: BTreeMap<Mismatch, usize> = BTreeMap::new();
    for (setup, curve) in curves {
        // The engine that a row comes nearest to.
        let of = |engine: &Sought| mismatch(setup, engine).unwrap_or(Mismatch::Level);
        let furthest = engines.iter().map(of).max();
        *rows.entry(furthest.unwrap_or(Mismatch::Backend)).or_default() += curve.rows;
    }
    let counted = Mismatch::ALL.into_iter().filter_map(|why| Some((rows.get(&why)?, why.what())));
    let counted: Vec<String> = counted.map(|(count, what)| format!("{count} of {what}")).collect();
    let total: usize = curves.iter().map(|(_, curve)| curve.rows).sum();
    let backends: BTreeSet<&str> = engines.iter().filter_map(|engine| backend(engine.served_by)).collect();
    let products: BTreeSet<&str> = engines.iter().map(|engine| engine.gpu_product.as_str()).collect();
    let listed = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(" or ");
    format!(
        "of its {total} rows of this model none is of an engine of {} on {}: {}; give a table of the search space, or \
         remove spec.profiling.prior",
        listed(backends),
        listed(products),
        counted.join(", ")
    )
}

/// What AIConfigurator calls a backend.
const fn backend(served_by: ServedBy) -> Option<&'static str> {
    match served_by {
        ServedBy::Custom => None,
        ServedBy::TensorRtLlm { .. }
        | ServedBy::NoBuild(NoBuildBackend::TensorRTLLMPyTorch | NoBuildBackend::TensorRTLLMPyTorchOpenAI) => {
            Some("trtllm")
        }
        ServedBy::NoBuild(NoBuildBackend::VLLM | NoBuildBackend::VLLMOpenAI) => Some("vllm"),
        ServedBy::NoBuild(NoBuildBackend::SGLang) => Some("sglang"),
    }
}

/// Whether a model of a table is the one that a reference names. Only letters and digits of the last part count:
/// `QWEN3_32B` is `hf://Qwen/Qwen3-32B@main`.
fn is_same_model(written: &str, reference: &str) -> bool {
    let bare = |name: &str| -> String {
        let path = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = path.split('@').next().unwrap_or_default();
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let written = bare(written);
    !written.is_empty() && written == bare(reference)
}

fn is_same_gpu(system: &str, gpu_product: &str) -> bool {
    let name = |gpu: Option<Gpu>| gpu.map(|gpu| gpu.name);
    name(by_system(system)).is_some_and(|system| name(by_label(gpu_product).ok()) == Some(system))
}

/// Whether AIConfigurator's formats of dense layers and experts are an engine's.
fn is_same_precision(setup: &Setup, precision: Precision) -> bool {
    let gemm = setup.gemm.as_str();
    let has_mxfp4 = setup.moe.contains("mxfp4");
    match precision {
        Precision::MXFP4 => has_mxfp4,
        Precision::W4A8AWQ => setup.moe == "w4afp8",
        Precision::FP16 | Precision::BF16 => !has_mxfp4 && setup.moe != "w4afp8" && is_of_16_bits(gemm),
        Precision::FP8 => setup.moe != "w4afp8" && ["fp8", "fp8_static", "fp8_block", "fp8_ootb"].contains(&gemm),
        Precision::INT8WeightOnly => gemm == "int8_wo",
        Precision::INT4WeightOnly | Precision::INT4AWQ => gemm == "int4_wo",
        Precision::INT8SmoothQuant => gemm == "sq",
        Precision::NVFP4 => ["nvfp4", "nvfp4_wo", "w4a16_nvfp4"].contains(&gemm),
        Precision::FP32 | Precision::INT8 => false,
    }
}

fn is_same_cache(written: &str, precision: Option<KvCachePrecision>) -> bool {
    match precision {
        // It is the checkpoint's or 16 bits.
        None | Some(KvCachePrecision::Auto) => true,
        Some(KvCachePrecision::FP8) => written == "fp8",
        Some(KvCachePrecision::INT8) => written == "int8",
    }
}

fn is_auto(axes: &EngineAxes) -> bool {
    matches!(axes.kv_cache_precision, None | Some(KvCachePrecision::Auto))
}

fn is_of_16_bits(written: &str) -> bool {
    ["bfloat16", "float16", "half"].contains(&written)
}

/// The point of a level: a row, or between two rows on the line in logarithms. Nothing is expected beyond the rows.
fn at(points: &BTreeMap<u32, Point>, level: i32) -> Option<ExpectedLevel> {
    let load = u32::try_from(level).ok()?;
    let (low, below) = points.range(..=load).next_back()?;
    let (high, above) = points.range(load..).next()?;
    let share = match low == high {
        true => 0.0,
        false => (f64::from(load) / f64::from(*low)).ln() / (f64::from(*high) / f64::from(*low)).ln(),
    };
    let between = |of: fn(&Point) -> u64| {
        let (below, above) = (of(below) as f64, of(above) as f64);
        (below.ln() + share * (above / below).ln()).exp().round() as i64
    };
    Some(ExpectedLevel {
        level,
        per_kilosecond: between(|point| point.per_kilosecond),
        request_microseconds: between(|point| point.request_micros),
        first_token_microseconds: between(|point| point.first_token_micros),
        inter_token_microseconds: between(|point| point.inter_token_micros),
    })
}
