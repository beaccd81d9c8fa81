//! Work that takes a thread for milliseconds.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes of text whose reading or writing is such work.
pub const LONG: usize = 32 * 1024;

/// Does such work while the thread's other tasks go on elsewhere.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        Ok(_) | Err(_) => work(),
    }
}
