//! Writes a large trace for measurements: `generate_trace kineto|nsys KERNELS OUTPUT`.
//!
//! The mix per kernel is that of a real decode loop (torch 2.11 on an H200). It has five nested operators with their
//! arguments, a launch, a kernel, a flow pair, two memory instants, and a range per step of 200 kernels. Kineto's order
//! is kept: all host events first, then CUDA calls and kernels in turn. A 70B model's tensor parallelism adds an
//! all-reduce every 20th kernel.

#![allow(clippy::unwrap_used)] // a tool of this repository: a failure ends it

use std::{
    fs::File,
    io::{BufWriter, Write},
};

use rusqlite::{Connection, params};

const KERNELS: [&str; 5] = [
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> \
     >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4, false, false, cutlass::bfloat16_t> \
     >(flash::Flash_fwd_params)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int, float)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned \
     int, 4, 64, 64>(at::native::(anonymous namespace)::OpaqueType<2u>*, int, unsigned int)",
];
const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const OPERATORS: [&str; 5] = ["aten::linear", "aten::matmul", "aten::mm", "aten::empty", "aten::as_strided"];
/// Kernels of a step.
const STEP: u64 = 200;
/// Time from kernel to kernel, nanoseconds.
const PITCH: u64 = 12_000;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [format, kernels, output] = arguments.as_slice() else { panic_usage() };
    let kernels = kernels.parse().unwrap_or_else(|_| panic_usage());
    match format.as_str() {
        "kineto" => kineto(kernels, output),
        "nsys" => nsys(kernels, output),
        _ => panic_usage(),
    }
}

fn panic_usage() -> ! {
    eprintln!("usage: generate_trace kineto|nsys KERNELS OUTPUT");
    std::process::exit(2)
}

fn kernel_name(at: u64) -> &'static str {
    if (at / 4) % 20 == 19 { NCCL } else { KERNELS[(at % 5) as usize] }
}

/// A gap every step in which the host is late, else 2 us between kernels.
fn kernel_span(at: u64) -> (u64, u64) {
    let late = (at / STEP) * 150_000;
    (20_000 + at * PITCH + late, 7_000 + at % 7 * 500)
}

fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000, nanos % 1_000)
}

fn kineto(kernels: u64, output: &str) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(output).unwrap());
    out.write_all(
        b"{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \
          \"totalGlobalMem\": 85027979264, \"computeMajor\": 9\n    }\n  ],\n  \"displayTimeUnit\": \"ms\",\n  \
          \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [\n",
    )
    .unwrap();
    for at in 0..kernels {
        host_events(&mut out, at);
    }
    for at in 0..kernels {
        device_events(&mut out, at);
    }
    out.write_all(
        b"  {\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\", \"ts\": 1\n  }\n  \
          ],\n  \"traceName\": \"trace.json\"\n}\n",
    )
    .unwrap();
    out.flush().unwrap();
}

fn host_events(out: &mut impl Write, at: u64) {
    let start = kernel_span(at).0 - 15_000;
    if at.is_multiple_of(STEP) {
        let name = if (at / STEP).is_multiple_of(50) { "prefill" } else { "decode" };
        let length = micros(STEP * PITCH - 1_000);
        write!(
            out,
            "  {{\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"{name}\", \"pid\": 403, \"tid\": 403,\n    \
             \"ts\": {}, \"dur\": {length},\n    \"args\": {{\n      \"External id\": {at},\"Record function id\": 0, \"Ev Idx\": \
             {at}\n    }}\n  }},\n",
            micros(start)
        )
        .unwrap();
    }
    for (depth, name) in OPERATORS.into_iter().enumerate() {
        let inner = depth as u64 * 400;
        write!(
            out,
            "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{name}\", \"pid\": 403, \"tid\": 403,\n    \"ts\": {}, \
             \"dur\": {},\n    \"args\": {{\n      \"External id\": {},\"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\"], \
             \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Strides\": [[2048, 1], [1, 2048]], \"Input Dims\": \
             [[4, 2048], [2048, 6144]], \"Ev Idx\": {}\n    }}\n  }},\n",
            micros(start + inner),
            micros(9_000 - 2 * inner),
            at * 5 + depth as u64,
            at * 5 + depth as u64
        )
        .unwrap();
    }
    for half in 0..2 {
        write!(
            out,
            "  {{\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": 403, \
             \"tid\": 403,\n    \"ts\": {},\n    \"args\": {{\n      \"Total Reserved\": 79691776, \"Total Allocated\": {}, \
             \"Bytes\": 4096, \"Device Id\": 0, \"Device Type\": 1, \"Addr\": 140108743475200, \"finished\": false, \"Ev Idx\": \
             {at}\n    }}\n  }},\n",
            micros(start + 2_000 + half * 500),
            65_000_000 + (at % 1_000) * 4_096
        )
        .unwrap();
    }
}

fn device_events(out: &mut impl Write, at: u64) {
    let (start, length) = kernel_span(at);
    let (correlation, launch) = (at + 1, micros(start - 12_000));
    write!(
        out,
        "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 403, \"tid\": 403,\n    \
         \"ts\": {launch}, \"dur\": 1.500,\n    \"args\": {{\n      \"External id\": {at}, \"cbid\": 211, \"correlation\": \
         {correlation}\n    }}\n  }},\n  {{\n    \"ph\": \"s\", \"id\": {correlation}, \"pid\": 403, \"tid\": 403, \"ts\": {launch},\n    \
         \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }},\n",
    )
    .unwrap();
    write!(
        out,
        "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {}, \"dur\": {},\n    \
         \"args\": {{\n      \"External id\": {at}, \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \
         \"correlation\": {correlation},\n      \"registers per thread\": 32,\n      \"shared memory\": 0,\n      \"blocks per SM\": \
         3.878788,\n      \"warps per SM\": 7.757576,\n      \"grid\": [512, 1, 1],\n      \"block\": [64, 1, 1],\n      \"est. \
         achieved occupancy %\": 12\n    }}\n  }},\n  {{\n    \"ph\": \"f\", \"id\": {correlation}, \"pid\": 0, \"tid\": 7, \"ts\": \
         {},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }},\n",
        kernel_name(at),
        micros(start),
        micros(length),
        micros(start)
    )
    .unwrap();
}

fn nsys(kernels: u64, output: &str) {
    let mut connection = Connection::open(output).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;").unwrap();
    connection
        .execute_batch(
            r#"CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
            INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000, '', '');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL,
             contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
             globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
             launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
             gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
             blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
             localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
             sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, "end" INTEGER NOT NULL,
             eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
             returnValue INTEGER NOT NULL, callchainId INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
             category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
             domainId INTEGER);"#,
        )
        .unwrap();
    let names: Vec<_> =
        KERNELS.into_iter().chain([NCCL, "cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020"]).collect();
    for (id, name) in names.iter().enumerate() {
        connection.execute("INSERT INTO StringIds VALUES (?1, ?2)", params![id as i64 + 100, name]).unwrap();
    }
    let transaction = connection.transaction().unwrap();
    {
        let mut insert = transaction
            .prepare(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, NULL, 7, ?4, ?5, ?6, ?6, ?6, NULL, 1, 32, 512, 1, \
                 1, 64, 1, 1, 0, 0, 0, 100663296, ?4, 102400, NULL, 0)",
            )
            .unwrap();
        for at in 0..kernels as i64 {
            let (start, length) = kernel_span(at as u64);
            let (start, end) = (start as i64, (start + length) as i64);
            let name = if (at / 4) % 20 == 19 { 105 } else { 100 + at % 5 };
            // Four ranks of one node: each launches in turn, on its own device and in its own process.
            insert.execute(params![start, end, at % 4, at + 1, process(at), name]).unwrap();
        }
        let mut insert = transaction
            .prepare("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)")
            .unwrap();
        for at in 0..kernels as i64 {
            let start = kernel_span(at as u64).0 as i64 - 12_000;
            insert.execute(params![start, start + 1_500, process(at) | 77, at + 1, 106]).unwrap();
            insert.execute(params![start + 2_000, start + 9_000, process(at) | 77, kernels as i64 + at, 107]).unwrap();
        }
        let mut insert = transaction
            .prepare("INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, NULL, NULL, ?3, ?4, NULL, NULL, 0)")
            .unwrap();
        for step in 0..kernels / STEP {
            let start = kernel_span(step * STEP).0 - 15_000;
            let text =
                format!("[Executor] _forward_step {step}: {} ctx reqs, 8 gen reqs", u64::from(step.is_multiple_of(50)));
            for rank in 0..4 {
                let end = (start + STEP * PITCH - 1_000) as i64;
                insert.execute(params![start as i64, end, text, process(rank) | 77]).unwrap();
            }
        }
    }
    transaction.commit().unwrap();
}

const fn process(rank: i64) -> i64 {
    1 << 48 | (400 + rank % 4) << 24
}
