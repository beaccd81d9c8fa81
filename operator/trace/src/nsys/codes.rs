//! Numbers of the export with a meaning: packed ids and enumerations (tables `ENUM_*`). Pure.

use crate::record::{CopyKind, Counter};

/// The upper 40 bits of a serialised thread or process id name machine and process.
pub(super) const PROCESS_MASK: u64 = !0xff_ffff;

/// Extracts the pid of a serialised id: bits 24 to 47.
pub(super) const fn process_id(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// `ENUM_CUDA_MEM_KIND`: device, array and static device memory; the others are host or managed.
pub(super) const DEVICE_MEMORY_KINDS: [i64; 3] = [2, 3, 5];

/// How an NVTX range begins and ends.
pub(super) enum RangeKind {
    Thread,
    Process,
}

impl RangeKind {
    /// `ENUM_NSYS_EVENT_TYPE`: 59 push/pop and 60 start/end, 70 and 71 the same from NVTX text files.
    pub(super) fn of(event_type: Option<i64>) -> Option<Self> {
        match event_type {
            None | Some(59 | 70) => Some(Self::Thread),
            Some(60 | 71) => Some(Self::Process),
            Some(_) => None,
        }
    }
}

/// `ENUM_CUDA_MEMCPY_OPER`.
pub(super) const fn copy_kind(code: Option<i64>) -> CopyKind {
    match code {
        Some(1) => CopyKind::HostToDevice,
        Some(2) => CopyKind::DeviceToHost,
        Some(8) => CopyKind::DeviceToDevice,
        Some(10) => CopyKind::PeerToPeer,
        _ => CopyKind::Other,
    }
}

pub(super) fn counter(metric: &str) -> Option<Counter> {
    let lower = metric.to_ascii_lowercase();
    let known = [
        ("tensor active", Counter::TensorActive),
        ("sms active", Counter::SmActive),
        ("sm active", Counter::SmActive),
        ("dram read", Counter::DramRead),
        ("dram write", Counter::DramWrite),
    ];
    known.into_iter().find(|(text, _)| lower.contains(text)).map(|(_, counter)| counter)
}
