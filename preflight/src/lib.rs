//! Checks the GPUs of a pod before its server starts: an init container that asks for all of the pod's GPUs.
//!
//! [`Gpus`] is what the driver's libraries say; [`nvidia`] is the only module that loads them. [`judge`] decides, and
//! [`check`] puts both together into a report, which [`message`] writes into the room that the kubelet gives.
//!
//! The same program may go on beside the server, in its container, the only one that sees the GPUs: [`watch`] counts
//! what they do, and [`serve`] tells the sidecar.
//!
//! The driver's libraries are those of the node, so the program links them at run time alone, and a static build cannot
//! do its work. Work on the GPU is copies within its memory, and products of matrices by a kernel of our own.

mod check;
pub mod judge;
pub mod message;
pub mod nvidia;
pub mod serve;
pub mod watch;
pub mod weights;

pub use check::{Copied, Gpus, Memory, Node, Products, Repair, Run, Seen, check};
