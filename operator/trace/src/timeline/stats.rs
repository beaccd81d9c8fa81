//! Sums of kernels and CUDA calls. Pure.

use std::collections::HashMap;

use super::{device::Durations, histogram::Histogram};
use crate::{
    classify::{ApiClass, KernelClass},
    record::NameId,
};

/// Sums of one kernel name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelStats {
    /// Family.
    pub class: KernelClass,
    /// Count, time and longest.
    pub durations: Durations,
    /// Shortest in nanoseconds.
    pub min_nanos: u64,
}

/// Matrix products whose shapes are known, split by what limits them at their arithmetic intensity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemmBounds {
    /// Kernel time above the device's ridge.
    pub compute_nanos: u64,
    /// Kernel time below it.
    pub memory_nanos: u64,
}

/// Kernel time of one engine phase, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelMix {
    /// Kernels.
    pub kernels: Durations,
    /// Kernel time by family, in the order of [`KernelClass::ALL`].
    pub classes: [Durations; KernelClass::ALL.len()],
    /// Time in NCCL's kernels.
    pub nccl_nanos: u64,
    /// Matrix products by what limits them.
    pub gemm: GemmBounds,
}

/// CUDA calls of the host.
#[derive(Debug, Default)]
pub struct Calls {
    /// By name.
    pub by_name: HashMap<NameId, Durations>,
    /// Launches of kernels and graphs.
    pub launches: Durations,
    /// Allocations.
    pub allocations: Durations,
    /// Allocations over [`SLOW_ALLOCATION_NANOS`].
    pub slow_allocations: Durations,
    /// Releases.
    pub frees: Durations,
    /// Releases over [`SLOW_ALLOCATION_NANOS`].
    pub slow_frees: Durations,
    /// Time from the start of a launch to the start of its first kernel.
    pub launch_to_start: Histogram,
}

/// An allocation longer than this went to the driver and waited: a cache hit takes microseconds.
pub const SLOW_ALLOCATION_NANOS: u64 = 1_000_000;

impl KernelStats {
    /// Starts with nothing counted.
    #[must_use]
    pub const fn new(class: KernelClass) -> Self {
        Self { class, durations: Durations { count: 0, nanos: 0, max_nanos: 0 }, min_nanos: u64::MAX }
    }

    /// Adds a kernel.
    pub fn add(&mut self, nanos: u64) {
        self.durations.add(nanos);
        self.min_nanos = self.min_nanos.min(nanos);
    }
}

impl KernelMix {
    /// Returns the durations of a family.
    #[must_use]
    pub fn class(&self, class: KernelClass) -> Durations {
        let at = KernelClass::ALL.iter().position(|&other| other == class).unwrap_or(0);
        self.classes[at]
    }

    /// Returns this less another that it contains.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        let subtract = |whole: &mut Durations, part: &Durations| {
            whole.count = whole.count.saturating_sub(part.count);
            whole.nanos = whole.nanos.saturating_sub(part.nanos);
        };
        subtract(&mut self.kernels, &part.kernels);
        for (whole, part) in self.classes.iter_mut().zip(&part.classes) {
            subtract(whole, part);
        }
        self.nccl_nanos = self.nccl_nanos.saturating_sub(part.nccl_nanos);
        self.gemm.compute_nanos = self.gemm.compute_nanos.saturating_sub(part.gemm.compute_nanos);
        self.gemm.memory_nanos = self.gemm.memory_nanos.saturating_sub(part.gemm.memory_nanos);
        self
    }

    /// Adds a kernel; `compute_bound` is known only for matrix products with shapes on a known device.
    pub fn add(&mut self, class: KernelClass, nanos: u64, nccl: bool, compute_bound: Option<bool>) {
        self.kernels.add(nanos);
        if let Some(at) = KernelClass::ALL.iter().position(|&other| other == class) {
            self.classes[at].add(nanos);
        }
        self.nccl_nanos = self.nccl_nanos.saturating_add(if nccl { nanos } else { 0 });
        match compute_bound {
            Some(true) => self.gemm.compute_nanos = self.gemm.compute_nanos.saturating_add(nanos),
            Some(false) => self.gemm.memory_nanos = self.gemm.memory_nanos.saturating_add(nanos),
            None => {}
        }
    }
}

impl Calls {
    /// Adds a call.
    pub fn add(&mut self, class: ApiClass, nanos: u64) {
        let (all, slow) = match class {
            ApiClass::Launch => {
                self.launches.add(nanos);
                return;
            }
            ApiClass::Allocate => (&mut self.allocations, &mut self.slow_allocations),
            ApiClass::Free => (&mut self.frees, &mut self.slow_frees),
            ApiClass::Copy | ApiClass::Synchronize | ApiClass::Other => return,
        };
        all.add(nanos);
        if nanos > SLOW_ALLOCATION_NANOS {
            slow.add(nanos);
        }
    }
}
