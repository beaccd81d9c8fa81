//! Matrix products in BF16 on a GPU: how fast they are, and whether they are right.
//!
//! Each warp multiplies matrices of ones in registers, so nothing but the tensor cores is measured. The instruction is
//! `mma.sync` of PTX (PTX ISA 7.0, "Warp Level Matrix Instructions"), which all GPUs since SM80 have. Hopper reaches
//! some 62 % of its data sheet by it (Luo et al. 2024, "Benchmarking and Dissecting the Nvidia Hopper GPU
//! Architecture via Microbenchmarking"). Every sum is a whole number that FP32 has exactly, so a right GPU gives it bit
//! by bit.
//!
//! The only module with unsafe code: a launch is unsafe, because nobody but its author knows what a kernel writes.

use std::{fmt::Write, sync::Arc};

use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg,
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    },
    nvrtc::Ptx,
};

use super::{AtWork, fastest, timed};
use crate::check::Products;

/// Products of a warp that do not wait for one another.
const CHAINS: u32 = 8;
/// Threads of a block: eight warps.
const THREADS: u32 = 256;
/// Blocks of a multiprocessor: four warps for each of its schedulers.
const BLOCKS: u32 = 2;
/// Operations of one instruction: a product and a sum for each of 16 x 8 x 16.
const OPERATIONS: f64 = 2.0 * 16.0 * 8.0 * 16.0;
/// What one instruction adds to each sum: sixteen products of ones.
const ADDED: u32 = 16;
/// Milliseconds that a launch takes about.
const LAUNCH_MILLIS: f32 = 50.0;
/// Rounds of the launch that says how many take so long.
const WARM_UP_ROUNDS: u32 = 2_000;
/// Rounds of a launch, at most and at least. Beyond 2^19, sums of a thread would not all be exact.
const LIMITS: (f32, f32) = (2_000.0, 500_000.0);
/// Two ones in BF16.
const ONES: u32 = 0x3F80_3F80;
/// The name of the kernel.
const KERNEL: &str = "products";

/// The products of a GPU, with what it said of itself during the fastest launch.
///
/// # Errors
/// What the driver says of work that it began.
pub(super) fn measure(
    context: &Arc<CudaContext>,
    meanwhile: impl Fn() -> AtWork,
) -> Result<(Products, AtWork), DriverError> {
    let compiled = context.load_module(Ptx::from_src(source())).and_then(|module| module.load_function(KERNEL));
    let kernel = match compiled {
        Ok(kernel) => kernel,
        Err(error) => {
            let problem = format!("the driver compiles no kernel: {error}");
            return Ok((Products::NotRun { problem }, AtWork::default()));
        }
    };
    let units = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let blocks = u32::try_from(units).unwrap_or(1).max(1) * BLOCKS;
    let stream = context.default_stream();
    let mut sums = stream.alloc_zeros::<f32>((blocks * THREADS) as usize)?;
    let (warm_up, _) = timed(context, &stream, || launch(&stream, &kernel, (&mut sums, WARM_UP_ROUNDS)), &meanwhile)?;
    let each = warm_up / WARM_UP_ROUNDS as f32;
    let rounds = (LAUNCH_MILLIS / each.max(1e-6)).clamp(LIMITS.0, LIMITS.1) as u32;
    let mut is_wrong = false;
    let (millis, at_work) = fastest(|| {
        let ended = timed(context, &stream, || launch(&stream, &kernel, (&mut sums, rounds)), &meanwhile)?;
        is_wrong |= stream.clone_dtoh(&sums)?.iter().any(|sum| *sum != expected(rounds));
        Ok(ended)
    })?;
    if is_wrong {
        return Ok((Products::Wrong, at_work));
    }
    let warps = f64::from(blocks * THREADS / 32);
    let operations = OPERATIONS * f64::from(CHAINS) * f64::from(rounds) * warps;
    Ok((Products::Tflops((operations / f64::from(millis) / 1e9) as u32), at_work))
}

/// The sum of all sums of a thread: [`CHAINS`] chains with four each, which began at 16 times their number.
fn expected(rounds: u32) -> f32 {
    let began = ADDED * (0..CHAINS).sum::<u32>();
    // A multiple of 16 below 2^28, which FP32 has exactly.
    (4 * (CHAINS * ADDED * rounds + began)) as f32
}

fn launch(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    (sums, rounds): (&mut CudaSlice<f32>, u32),
) -> Result<(), DriverError> {
    let blocks = u32::try_from(sums.len()).unwrap_or(u32::MAX) / THREADS;
    let shape = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    let mut arguments = stream.launch_builder(kernel);
    arguments.arg(sums).arg(&rounds).arg(&ONES);
    // SAFETY: the arguments are those of the kernel in `source`, in its order: a pointer and two words of 32 bits. Each
    // of the `blocks * THREADS` threads writes the one float of its number, and `sums` has at least so many. Nothing
    // else is written or read.
    #[expect(unsafe_code, reason = "a launch is unsafe; this is the only one")]
    unsafe {
        arguments.launch(shape)?;
    }
    Ok(())
}

/// The kernel in PTX. The driver compiles it for the GPU that is there.
fn source() -> String {
    let sums = 4 * CHAINS;
    let mut text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry {KERNEL}(.param .u64 sums, .param .u32 rounds, .param .u32 ones)\n{{\n\
         .reg .pred %more;\n.reg .b32 %ones, %rounds, %thread, %block, %size, %place;\n\
         .reg .f32 %sum<{sums}>;\n.reg .b64 %sums, %offset;\n\
         ld.param.u64 %sums, [sums];\nld.param.u32 %rounds, [rounds];\nld.param.u32 %ones, [ones];\n\
         cvta.to.global.u64 %sums, %sums;\n"
    );
    // Chains that began alike would be one and the same to the compiler.
    for sum in 0..sums {
        let began = (ADDED * (sum / 4)) as f32;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "mov.f32 %sum{sum}, 0f{:08X};", began.to_bits());
    }
    text.push_str("again:\n");
    for chain in 0..CHAINS {
        let [a, b, c, d] = [0, 1, 2, 3].map(|place| 4 * chain + place);
        let accumulators = format!("{{%sum{a}, %sum{b}, %sum{c}, %sum{d}}}");
        let _ = writeln!(
            text,
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {accumulators}, {{%ones, %ones, %ones, %ones}}, \
             {{%ones, %ones}}, {accumulators};"
        );
    }
    text.push_str("sub.u32 %rounds, %rounds, 1;\nsetp.ne.u32 %more, %rounds, 0;\n@%more bra again;\n");
    for sum in 1..sums {
        let _ = writeln!(text, "add.f32 %sum0, %sum0, %sum{sum};");
    }
    text.push_str(
        "mov.u32 %thread, %tid.x;\nmov.u32 %block, %ctaid.x;\nmov.u32 %size, %ntid.x;\n\
         mad.lo.u32 %place, %block, %size, %thread;\nmul.wide.u32 %offset, %place, 4;\n\
         add.u64 %sums, %sums, %offset;\nst.global.f32 [%sums], %sum0;\nret;\n}\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_is_a_number_that_fp32_has() {
        for rounds in [1, WARM_UP_ROUNDS, LIMITS.1 as u32] {
            let exact = 4 * (u64::from(CHAINS * ADDED) * u64::from(rounds) + u64::from(ADDED * 28));
            assert_eq!(f64::from(expected(rounds)), exact as f64, "{rounds} rounds");
        }
    }

    #[test]
    fn a_round_has_one_product_for_each_chain_and_every_sum_is_added_up() {
        let text = source();
        assert_eq!(text.matches("mma.sync").count(), CHAINS as usize);
        assert_eq!(text.matches("add.f32").count(), 31);
        assert!(text.contains("mov.f32 %sum31, 0f42E00000;"), "the last chain begins at 112: {text}");
        assert!(text.is_ascii() && !text.contains('\0'));
    }
}
