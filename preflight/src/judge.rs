//! Whether the GPUs of a pod will do. Pure.

use slipway_vocabulary::{
    gpu,
    preflight::{GpuRefusal, PreflightTask, Slowdown},
};

use crate::{
    Copied, Node, Run, Seen,
    check::{Memory, Products, Repair},
};

/// Share of the data sheet's bandwidth that copies must reach, in percent. GPUs that work well reach 75 to 92 %.
const LEAST_BANDWIDTH_PERCENT: u32 = 60;
/// Share of the data sheet's throughput that products must reach on Hopper, in percent. One that works well reaches
/// some 63 %: the rest takes instructions of four warps together.
const LEAST_PRODUCTS_PERCENT: u32 = 40;
/// Hopper, times ten. What other generations reach was not measured: at their power limits small cards of Ada are said
/// to reach half of their data sheet.
const HOPPER: u32 = 90;
/// A GPU of which less must be free is shared with others, whose work slows copies down.
const SHARED_BELOW_PER_MILLION: u32 = 500_000;

/// What speaks against GPUs at rest. Those of a driver that is too old, and those that are not whole, are not looked at
/// any closer.
#[must_use]
pub fn at_rest(task: &PreflightTask, node: &Node, weights_mib: Option<u64>) -> Vec<GpuRefusal> {
    let seen = number(node.gpus.len());
    let too_few = (seen < task.gpus).then_some(GpuRefusal::TooFew { seen, asked: task.gpus });
    let driver = old_driver(&node.driver, task.min_driver.as_deref());
    let sliced = node.gpus.iter().enumerate().filter(|(_, seen)| seen.is_mig);
    let sliced = sliced.map(|(place, seen)| GpuRefusal::Mig { gpu: number(place), name: seen.name.clone() });
    let of_node: Vec<GpuRefusal> = too_few.into_iter().chain(driver).chain(sliced).collect();
    if !of_node.is_empty() {
        return of_node;
    }
    let each = node.gpus.iter().enumerate().flat_map(|(place, seen)| resting(task, number(place), seen));
    each.chain(weights(node, weights_mib)).collect()
}

/// What speaks against GPUs at work.
#[must_use]
pub fn at_work(task: &PreflightTask, seen: &[Seen], runs: &[Run]) -> Vec<GpuRefusal> {
    let pairs = seen.iter().zip(runs).enumerate();
    pairs.flat_map(|(place, (seen, run))| working(task, number(place), (seen, run))).collect()
}

/// What a vendor says of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSheet {
    /// GB/s of its memory.
    pub gb_per_second: u32,
    /// Dense TFLOPS in BF16.
    pub tflops: u32,
}

/// The data sheet of a GPU that the driver calls so; absent of products that are not in the table.
#[must_use]
pub fn data_sheet(name: &str) -> Option<DataSheet> {
    // Figures of the table are below 10,000.
    let of = |gpu: gpu::Gpu| DataSheet { gb_per_second: gpu.bandwidth as u32, tflops: gpu.tflops as u32 };
    gpu::by_label(&label(name)).ok().map(of)
}

/// The place of a GPU.
pub(crate) fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// What GPU feature discovery makes of a name.
fn label(name: &str) -> String {
    name.replace(' ', "-")
}

fn old_driver(driver: &str, needed: Option<&str>) -> Option<GpuRefusal> {
    let needed = needed?;
    // A version that is not numbers cannot be compared, and refuses nothing.
    let is_older = numbers(driver)? < numbers(needed)?;
    is_older.then(|| GpuRefusal::OldDriver { driver: driver.to_owned(), needed: needed.to_owned() })
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

fn resting(task: &PreflightTask, gpu: u32, seen: &Seen) -> Vec<GpuRefusal> {
    let product = task.product.as_deref().and_then(|asked| other_product(gpu, seen, asked));
    let memory = match &seen.memory {
        Ok(memory) => occupied(task, gpu, *memory),
        Err(problem) => {
            Some(GpuRefusal::Unusable { gpu, step: "tell its memory".to_owned(), problem: problem.clone() })
        }
    };
    let errors = seen.uncorrected_errors.filter(|errors| *errors > 0);
    let errors = errors.map(|errors| GpuRefusal::UncorrectedErrors { gpu, errors });
    let repair = match seen.repair {
        Repair::NotNeeded => None,
        Repair::Pending => Some(GpuRefusal::RepairPending { gpu }),
        Repair::Failed => Some(GpuRefusal::RepairFailed { gpu }),
    };
    [product, memory, errors, repair].into_iter().flatten().collect()
}

/// Labels may be written by hand: only two products of the table are known to differ. Of one that the table lacks the
/// compute capability tells: engines and kernels were chosen for that of the product that was asked for.
fn other_product(gpu: u32, seen: &Seen, asked: &str) -> Option<GpuRefusal> {
    let wanted = gpu::by_label(asked).ok()?;
    let (product, asked) = (label(&seen.name), asked.to_owned());
    if let Ok(found) = gpu::by_label(&product) {
        return (found.name != wanted.name).then_some(GpuRefusal::OtherProduct { gpu, product, asked });
    }
    let (sm, asked_sm) = (seen.sm?, wanted.sm?);
    let name = seen.name.clone();
    (sm != asked_sm).then_some(GpuRefusal::OtherCapability { gpu, name, sm, asked, asked_sm })
}

fn occupied(task: &PreflightTask, gpu: u32, memory: Memory) -> Option<GpuRefusal> {
    let Memory { free_mib, total_mib: memory_mib } = memory;
    let needed_mib = memory_mib.saturating_mul(u64::from(task.min_free_per_million)) / 1_000_000;
    (free_mib < needed_mib).then_some(GpuRefusal::Occupied { gpu, free_mib, memory_mib, needed_mib })
}

fn weights(node: &Node, weights_mib: Option<u64>) -> Option<GpuRefusal> {
    let weights_mib = weights_mib?;
    let free: Option<Vec<u64>> =
        node.gpus.iter().map(|seen| seen.memory.as_ref().ok().map(|memory| memory.free_mib)).collect();
    let free_mib = free?.iter().sum();
    let gpus = number(node.gpus.len());
    (weights_mib > free_mib).then_some(GpuRefusal::WeightsDoNotFit { weights_mib, free_mib, gpus })
}

fn working(task: &PreflightTask, gpu: u32, (seen, run): (&Seen, &Run)) -> Vec<GpuRefusal> {
    let copies = match &run.copied {
        Copied::GbPerSecond(rate) => slow_memory(task, gpu, (&seen.name, *rate)),
        Copied::NoRoom => None,
        Copied::Failed { step, problem } => {
            Some(GpuRefusal::Unusable { gpu, step: step.clone(), problem: problem.clone() })
        }
    };
    let products = match &run.products {
        Products::Tflops(rate) => slow_products(task, gpu, (seen, *rate)),
        Products::Wrong => Some(GpuRefusal::WrongProducts { gpu }),
        Products::NotRun { .. } => None,
        Products::Failed { problem } => {
            Some(GpuRefusal::Unusable { gpu, step: "multiply matrices".to_owned(), problem: problem.clone() })
        }
    };
    let by: Vec<Slowdown> = run.slowed_by.iter().copied().filter(|by| !by.is_normal()).collect();
    let (clock_mhz, max_clock_mhz) = (run.clock_mhz, seen.max_clock_mhz);
    let slowed = (!by.is_empty()).then_some(GpuRefusal::Slowed { gpu, by, clock_mhz, max_clock_mhz });
    let xids = run.xids.iter().map(|code| GpuRefusal::Xid { gpu, code: *code });
    copies.into_iter().chain(products).chain(slowed).chain(xids).collect()
}

fn slow_memory(task: &PreflightTask, gpu: u32, (name, copy_gb_per_second): (&str, u32)) -> Option<GpuRefusal> {
    let data_sheet_gb_per_second = data_sheet_unless_shared(task, name)?.gb_per_second;
    let needed_gb_per_second = data_sheet_gb_per_second * LEAST_BANDWIDTH_PERCENT / 100;
    (copy_gb_per_second < needed_gb_per_second).then_some(GpuRefusal::SlowMemory {
        gpu,
        copy_gb_per_second,
        needed_gb_per_second,
        data_sheet_gb_per_second,
    })
}

fn slow_products(task: &PreflightTask, gpu: u32, (seen, bf16_tflops): (&Seen, u32)) -> Option<GpuRefusal> {
    seen.sm.filter(|sm| *sm == HOPPER)?;
    let data_sheet_tflops = data_sheet_unless_shared(task, &seen.name)?.tflops;
    let needed_tflops = data_sheet_tflops * LEAST_PRODUCTS_PERCENT / 100;
    (bf16_tflops < needed_tflops).then_some(GpuRefusal::SlowProducts {
        gpu,
        bf16_tflops,
        needed_tflops,
        data_sheet_tflops,
    })
}

fn data_sheet_unless_shared(task: &PreflightTask, name: &str) -> Option<DataSheet> {
    data_sheet(name).filter(|_| task.min_free_per_million >= SHARED_BELOW_PER_MILLION)
}
