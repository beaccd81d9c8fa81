//! What a pod's GPUs are refused for, with a stand-in for the driver's libraries.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_preflight::{Copied, Gpus, Memory, Node, Products, Repair, Run, Seen, check, message::encode};
use slipway_vocabulary::preflight::{GpuRefusal, GpuReport, PreflightReport, PreflightTask, Slowdown};

/// A node whose GPUs are as a test wants them.
#[derive(Clone)]
struct StandIn {
    node: Node,
    runs: Vec<Run>,
    /// What the library says that lets GPUs work, if it is not to be there.
    no_cuda: Option<GpuRefusal>,
}

impl Gpus for StandIn {
    fn look(&self) -> Result<Node, GpuRefusal> {
        Ok(self.node.clone())
    }

    fn run(&self, seen: &[Seen]) -> Result<Vec<Run>, GpuRefusal> {
        assert_eq!(seen, self.node.gpus);
        self.no_cuda.clone().map_or_else(|| Ok(self.runs.clone()), Err)
    }
}

/// GPUs that work well: figures of a run on an H100.
fn good(count: usize) -> StandIn {
    let seen = |place: usize| Seen {
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        uuid: format!("GPU-{place}"),
        sm: Some(90),
        memory: Ok(Memory { free_mib: 81_076, total_mib: 81_559 }),
        is_mig: false,
        uncorrected_errors: Some(0),
        repair: Repair::NotNeeded,
        max_clock_mhz: Some(1_980),
    };
    let run = Run {
        copied: Copied::GbPerSecond(2_800),
        products: Products::Tflops(610),
        clock_mhz: Some(1_980),
        slowed_by: vec![Slowdown::PowerCap],
        xids: Vec::new(),
    };
    let gpus = (0..count).map(seen).collect();
    let node = Node { driver: "580.159.04".to_owned(), cuda: Some("13.0".to_owned()), gpus };
    StandIn { node, runs: vec![run; count], no_cuda: None }
}

fn task() -> PreflightTask {
    PreflightTask {
        product: Some("NVIDIA-H100-80GB-HBM3".to_owned()),
        min_driver: Some("580.65.06".to_owned()),
        ..PreflightTask::default()
    }
}

/// What is said of a good node that was changed.
fn said(change: impl FnOnce(&mut StandIn)) -> String {
    let mut node = good(1);
    change(&mut node);
    check(&node, &task(), Some(16_000)).refused().unwrap_or_default()
}

#[test]
fn a_gpu_that_works_well_passes_and_is_described() {
    let report = check(&good(1), &task(), Some(16_000));
    let expected = PreflightReport {
        format_version: 1,
        refusals: Vec::new(),
        omitted_refusals: 0,
        driver: Some("580.159.04".to_owned()),
        cuda: Some("13.0".to_owned()),
        gpus: vec![GpuReport {
            gpu: 0,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            sm: Some(90),
            memory_mib: Some(81_559),
            free_mib: Some(81_076),
            copy_gb_per_second: Some(2_800),
            data_sheet_gb_per_second: Some(3_350),
            bf16_tflops: Some(610),
            data_sheet_tflops: Some(989),
            clock_mhz: Some(1_980),
            max_clock_mhz: Some(1_980),
            slowed_by: vec![Slowdown::PowerCap],
            uncorrected_errors: Some(0),
        }],
        omitted_gpus: 0,
        not_measured: Vec::new(),
        weights_mib: Some(16_000),
        millis: 0,
    };
    assert_eq!(report, expected);
    assert_eq!(report.refused(), None);
}

#[rstest]
#[case::an_old_driver(
    |node: &mut StandIn| node.node.driver = "580.65.5".to_owned(),
    "driver 580.65.5 is older than 580.65.06, which spec.serving.preflight.minDriver asks for: update it, or choose \
     other nodes"
)]
#[case::an_occupied_gpu(
    |node: &mut StandIn| node.node.gpus[0].memory = Ok(Memory { free_mib: 20_000, total_mib: 81_559 }),
    "GPU 0 has 20000 of 81559 MiB free and 73403 are needed: end what holds the rest, or lower \
     spec.serving.preflight.minFreeMemory"
)]
#[case::mig(
    |node: &mut StandIn| node.node.gpus[0].is_mig = true,
    "GPU 0 (NVIDIA H100 80GB HBM3) is cut into MIG slices: choose nodes with whole GPUs"
)]
#[case::no_gpu(|node: &mut StandIn| node.node.gpus.clear(), "the container sees 0 of 1 GPUs: check the node's device plugin")]
#[case::another_product(
    |node: &mut StandIn| node.node.gpus[0].name = "NVIDIA L4".to_owned(),
    "GPU 0 is NVIDIA-L4, but spec.hardware.nodeSelector names NVIDIA-H100-80GB-HBM3: correct the node's labels"
)]
#[case::a_product_that_the_table_lacks(
    |node: &mut StandIn| {
        let gpu = &mut node.node.gpus[0];
        (gpu.name, gpu.sm) = ("NVIDIA Prototype".to_owned(), Some(86));
    },
    "GPU 0 (NVIDIA Prototype) has compute capability 8.6, and NVIDIA-H100-80GB-HBM3, which \
     spec.hardware.nodeSelector names, has 9.0: correct the node's labels"
)]
#[case::memory_that_is_not_told(
    |node: &mut StandIn| node.node.gpus[0].memory = Err("the GPU is lost".to_owned()),
    "GPU 0 fails to tell its memory (the GPU is lost): look for XID errors in the node's kernel log, and reset \
     the GPU or choose other nodes"
)]
#[case::memory_errors(
    |node: &mut StandIn| node.node.gpus[0].uncorrected_errors = Some(3),
    "GPU 0 has 3 uncorrected memory errors: reset it, or replace it if they come back"
)]
#[case::a_repair_that_waits(
    |node: &mut StandIn| node.node.gpus[0].repair = Repair::Pending,
    "GPU 0 waits for a reset that repairs its memory: reset it"
)]
#[case::a_repair_that_failed(
    |node: &mut StandIn| node.node.gpus[0].repair = Repair::Failed,
    "GPU 0 has memory that cannot be repaired: replace it"
)]
#[case::slow_memory(
    |node: &mut StandIn| node.runs[0].copied = Copied::GbPerSecond(1_200),
    "GPU 0 copies 1200 GB/s, and needs 2010 of the 3350 of its data sheet: another process uses it, or it is damaged"
)]
#[case::copies_that_fail(
    |node: &mut StandIn| {
        let (step, problem) = ("copy within its memory".to_owned(), "an illegal memory access".to_owned());
        node.runs[0].copied = Copied::Failed { step, problem };
    },
    "GPU 0 fails to copy within its memory (an illegal memory access): look for XID errors in the node's kernel log, \
     and reset the GPU or choose other nodes"
)]
#[case::slow_products(
    |node: &mut StandIn| node.runs[0].products = Products::Tflops(310),
    "GPU 0 multiplies 310 TFLOPS in BF16, and needs 395 of the 989 of its data sheet: another process uses it, or it is \
     damaged"
)]
#[case::wrong_products(
    |node: &mut StandIn| node.runs[0].products = Products::Wrong,
    "GPU 0 multiplies matrices wrong: replace it, and distrust what it computed"
)]
#[case::products_that_fail(
    |node: &mut StandIn| node.runs[0].products = Products::Failed { problem: "the launch failed".to_owned() },
    "GPU 0 fails to multiply matrices (the launch failed): look for XID errors in the node's kernel log, and reset \
     the GPU or choose other nodes"
)]
#[case::a_hot_gpu(
    |node: &mut StandIn| {
        node.runs[0].slowed_by = vec![Slowdown::PowerCap, Slowdown::Heat, Slowdown::HardwareHeat];
        node.runs[0].clock_mhz = Some(660);
    },
    "GPU 0 is slowed down by heat and its thermal protection to 660 of 1980 MHz: check the node's cooling and power"
)]
#[case::an_error_meanwhile(
    |node: &mut StandIn| node.runs[0].xids = vec![Some(79)],
    "GPU 0 raised XID 79 during the checks: look it up in NVIDIA's list of XID errors"
)]
#[case::no_cuda(
    |node: &mut StandIn| {
        let (library, problem) = ("libcuda.so.1".to_owned(), "no such file".to_owned());
        node.no_cuda = Some(GpuRefusal::NoLibrary { library, problem });
    },
    "libcuda.so.1 cannot be loaded (no such file): check the node's driver and NVIDIA's container toolkit"
)]
fn a_gpu_that_will_not_do_is_refused_with_its_figures(
    #[case] change: impl FnOnce(&mut StandIn),
    #[case] expected: &str,
) {
    assert_eq!(said(change), expected);
}

#[test]
fn weights_must_fit_all_gpus_together() {
    let report = |gpus: usize, weights| {
        let task = PreflightTask { gpus: u32::try_from(gpus).expect("a few"), ..task() };
        check(&good(gpus), &task, Some(weights)).refused()
    };
    let expected = "the weights take 140000 MiB, and one GPU has 81076 MiB free: split the engine over more GPUs, or \
                    choose a smaller precision";
    assert_eq!(report(1, 140_000).as_deref(), Some(expected));
    assert_eq!(report(2, 140_000), None);
    let of_two = report(2, 200_000).expect("it does not fit");
    assert!(of_two.starts_with("the weights take 200000 MiB, and 2 GPUs have 162152 MiB free:"), "{of_two}");
}

/// Its neighbours slow its copies down, and hold memory.
#[test]
fn a_shared_gpu_is_asked_for_its_share_alone() {
    let mut node = good(1);
    node.node.gpus[0].memory = Ok(Memory { free_mib: 40_000, total_mib: 81_559 });
    node.runs[0].copied = Copied::GbPerSecond(900);
    node.runs[0].products = Products::Tflops(90);
    let product = Some("NVIDIA-H100-80GB-HBM3-SHARED".to_owned());
    let task = PreflightTask { min_free_per_million: 400_000, product, ..task() };
    assert_eq!(check(&node, &task, None).refused(), None);
}

#[test]
fn a_gpu_that_nobody_knows_is_held_to_no_data_sheet() {
    assert_eq!(
        said(|node| {
            node.node.gpus[0].name = "NVIDIA H900".to_owned();
            node.runs[0].copied = Copied::GbPerSecond(5);
            node.runs[0].products = Products::Tflops(1);
        }),
        ""
    );
}

#[test]
fn gpus_that_are_refused_get_no_work() {
    let mut node = good(1);
    node.node.gpus[0].is_mig = true;
    node.no_cuda = Some(GpuRefusal::TimedOut { seconds: 30 });
    let report = check(&node, &task(), None);
    assert_eq!(report.refusals, [GpuRefusal::Mig { gpu: 0, name: "NVIDIA H100 80GB HBM3".to_owned() }]);
    assert_eq!(report.not_measured, ["copies and products: the GPUs were refused before"]);
}

/// What a driver cannot do speaks against no GPU. Nor is one held to an instruction that is not its fastest.
#[test]
fn products_that_were_not_run_are_told_and_those_of_unknown_generations_are_not_judged() {
    let mut node = good(1);
    let problem = "the driver compiles no kernel: CUDA_ERROR_JIT_COMPILER_NOT_FOUND".to_owned();
    node.runs[0].products = Products::NotRun { problem: problem.clone() };
    let report = check(&node, &task(), None);
    assert_eq!(report.refusals, []);
    assert_eq!(report.not_measured, [format!("products in BF16 on GPU 0: {problem}")]);

    for (name, sm, copies, products, data_sheet) in
        [("NVIDIA B200", 100, 7_000, 400, 2_250), ("NVIDIA L4", 89, 250, 50, 121)]
    {
        let mut node = good(1);
        (node.node.gpus[0].name, node.node.gpus[0].sm) = (name.to_owned(), Some(sm));
        (node.runs[0].copied, node.runs[0].products) = (Copied::GbPerSecond(copies), Products::Tflops(products));
        let report = check(&node, &PreflightTask { product: None, ..task() }, None);
        assert_eq!(report.refusals, [], "{name}");
        let figures = report.gpus.first().map(|gpu| (gpu.bf16_tflops, gpu.data_sheet_tflops));
        assert_eq!(figures, Some((Some(products), Some(data_sheet))), "{name}");
    }
}

#[rstest]
#[case(4_096, 8)]
#[case(3_072, 8)]
#[case(1_500, 4)]
fn a_report_fits_the_room_that_a_pod_gives_it(#[case] limit: usize, #[case] least_gpus: usize) {
    let mut node = good(8);
    for run in &mut node.runs {
        run.xids = vec![Some(94)];
    }
    let report = check(&node, &PreflightTask { gpus: 8, ..task() }, None);
    let text = encode(&report, limit).expect("JSON");
    assert!(text.len() <= limit, "{} bytes", text.len());
    let read: PreflightReport = serde_json::from_str(&text).expect("the same type");
    assert_eq!(read.refusals.len() as u32 + read.omitted_refusals, 8);
    assert_eq!(read.gpus.len() as u32 + read.omitted_gpus, 8);
    assert!(read.gpus.len() >= least_gpus || limit < 3_072, "{} GPUs", read.gpus.len());
}

#[test]
fn refusals_that_do_not_fit_are_counted() {
    let refusals = (0..40).map(|gpu| GpuRefusal::RepairPending { gpu }).collect();
    let report = PreflightReport { refusals, ..check(&good(1), &task(), None) };
    let text = encode(&report, 400).expect("JSON");
    let read: PreflightReport = serde_json::from_str(&text).expect("the same type");
    assert!(text.len() <= 400 && read.omitted_refusals > 30, "{text}");
    let words = read.refused().expect("it is refused");
    assert!(words.ends_with(&format!("; and {} further problems", read.omitted_refusals)), "{words}");
}
