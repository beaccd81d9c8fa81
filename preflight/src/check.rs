//! From what the driver's libraries say to a report.

use slipway_vocabulary::preflight::{GpuRefusal, GpuReport, PreflightReport, PreflightTask, Slowdown};

use crate::judge;

/// The GPUs that a container sees.
pub trait Gpus {
    /// What can be said of them while they rest.
    ///
    /// # Errors
    /// Why nothing can be said.
    fn look(&self) -> Result<Node, GpuRefusal>;

    /// Lets all of them copy within their memory and multiply matrices, and says what each did, in the order of `seen`.
    ///
    /// # Errors
    /// Why nothing can run.
    fn run(&self, seen: &[Seen]) -> Result<Vec<Run>, GpuRefusal>;
}

/// What can be said of the GPUs while they rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Version of the driver.
    pub driver: String,
    /// The newest CUDA that it serves.
    pub cuda: Option<String>,
    /// The GPUs.
    pub gpus: Vec<Seen>,
}

/// A GPU at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name, as the driver has it.
    pub name: String,
    /// Its UUID, as in `GPU-0e1c...`.
    pub uuid: String,
    /// Its compute capability times ten.
    pub sm: Option<u32>,
    /// Its memory, or why the driver does not say.
    pub memory: Result<Memory, String>,
    /// Whether it is cut into MIG slices.
    pub is_mig: bool,
    /// Memory errors that could not be corrected, since its driver was loaded; absent without ECC.
    pub uncorrected_errors: Option<u64>,
    /// Whether its memory has to be repaired.
    pub repair: Repair,
    /// The highest clock of its multiprocessors, in MHz.
    pub max_clock_mhz: Option<u32>,
}

/// Memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// MiB that nobody holds.
    pub free_mib: u64,
    /// MiB in all.
    pub total_mib: u64,
}

/// Whether memory has to be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// No, as far as the driver says.
    NotNeeded,
    /// At the next reset.
    Pending,
    /// It cannot be.
    Failed,
}

/// A GPU at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// How fast it copied.
    pub copied: Copied,
    /// How fast it multiplied.
    pub products: Products,
    /// Clock of its multiprocessors meanwhile, in MHz.
    pub clock_mhz: Option<u32>,
    /// What slowed it down meanwhile.
    pub slowed_by: Vec<Slowdown>,
    /// Errors that the driver reported meanwhile, each with its number where it has one.
    pub xids: Vec<Option<u64>>,
}

/// The result of the copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// GB/s read and written.
    GbPerSecond(u32),
    /// Too little memory is free for them.
    NoRoom,
    /// They failed.
    Failed {
        /// At what.
        step: String,
        /// What the driver says.
        problem: String,
    },
}

/// The result of products of matrices in BF16.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Products {
    /// TFLOPS.
    Tflops(u32),
    /// Their sums are not what they must be.
    Wrong,
    /// They were not tried, or the driver has no means for them.
    NotRun {
        /// Why.
        problem: String,
    },
    /// They failed.
    Failed {
        /// What the driver says.
        problem: String,
    },
}

impl Run {
    /// Copies and nothing else.
    #[must_use]
    pub fn of(copied: Copied) -> Self {
        let products = Products::NotRun { problem: "its copies came to no end".to_owned() };
        Self { copied, products, clock_mhz: None, slowed_by: Vec::new(), xids: Vec::new() }
    }
}

/// Checks the GPUs. Those that are refused at rest are given no work. Time is left to the caller.
pub fn check(gpus: &dyn Gpus, task: &PreflightTask, weights_mib: Option<u64>) -> PreflightReport {
    let node = match gpus.look() {
        Ok(node) => node,
        Err(refusal) => return PreflightReport { weights_mib, ..PreflightReport::of(vec![refusal]) },
    };
    let report = PreflightReport {
        driver: Some(node.driver.clone()),
        cuda: node.cuda.clone(),
        gpus: reports(&node.gpus, &[]),
        weights_mib,
        ..PreflightReport::of(judge::at_rest(task, &node, weights_mib))
    };
    if !report.refusals.is_empty() {
        let not_measured = vec!["copies and products: the GPUs were refused before".to_owned()];
        return PreflightReport { not_measured, ..report };
    }
    match gpus.run(&node.gpus) {
        Err(refusal) => PreflightReport { refusals: vec![refusal], ..report },
        Ok(runs) => PreflightReport {
            refusals: judge::at_work(task, &node.gpus, &runs),
            gpus: reports(&node.gpus, &runs),
            not_measured: not_measured(&runs),
            ..report
        },
    }
}

fn not_measured(runs: &[Run]) -> Vec<String> {
    let without_room = runs.iter().enumerate().filter(|(_, run)| run.copied == Copied::NoRoom);
    let copies = without_room.map(|(gpu, _)| format!("copies on GPU {gpu}: too little of its memory is free"));
    let products = runs.iter().enumerate().filter_map(|(gpu, run)| match &run.products {
        Products::NotRun { problem } => Some(format!("products in BF16 on GPU {gpu}: {problem}")),
        Products::Tflops(_) | Products::Wrong | Products::Failed { .. } => None,
    });
    copies.chain(products).collect()
}

fn reports(seen: &[Seen], runs: &[Run]) -> Vec<GpuReport> {
    let report = |(place, seen): (usize, &Seen)| {
        let (run, memory) = (runs.get(place), seen.memory.as_ref().ok());
        let copied = run.and_then(|run| match run.copied {
            Copied::GbPerSecond(rate) => Some(rate),
            Copied::NoRoom | Copied::Failed { .. } => None,
        });
        let multiplied = run.and_then(|run| match run.products {
            Products::Tflops(rate) => Some(rate),
            Products::Wrong | Products::NotRun { .. } | Products::Failed { .. } => None,
        });
        let data_sheet = judge::data_sheet(&seen.name);
        GpuReport {
            gpu: judge::number(place),
            name: seen.name.clone(),
            sm: seen.sm,
            memory_mib: memory.map(|memory| memory.total_mib),
            free_mib: memory.map(|memory| memory.free_mib),
            copy_gb_per_second: copied,
            data_sheet_gb_per_second: data_sheet.map(|sheet| sheet.gb_per_second),
            bf16_tflops: multiplied,
            data_sheet_tflops: data_sheet.map(|sheet| sheet.tflops),
            clock_mhz: run.and_then(|run| run.clock_mhz),
            max_clock_mhz: seen.max_clock_mhz,
            slowed_by: run.map(|run| run.slowed_by.clone()).unwrap_or_default(),
            uncorrected_errors: seen.uncorrected_errors,
        }
    };
    seen.iter().enumerate().map(report).collect()
}
