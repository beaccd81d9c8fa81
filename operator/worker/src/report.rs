//! Writes the termination message.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use slipway_worker_contract::{FailureClass, Message};

/// Where the message goes and how long it may be.
#[derive(Clone, Debug)]
pub struct Report {
    /// The container's termination log; written only if the kubelet (or the caller) has made the file.
    pub termination_log: PathBuf,
    /// Most bytes that this pod keeps of it.
    pub message_bytes: usize,
}

impl Report {
    /// Writes the message to the termination log and to standard output; returns the exit code.
    ///
    /// A message whose data does not fit becomes a failure that says so: half a result does not count.
    pub fn finish(&self, message: &Message) -> u8 {
        let (bytes, message) = match message.encode(self.message_bytes) {
            Ok(bytes) => (bytes, message.clone()),
            Err(error) => {
                let failed = Message::Failed { class: FailureClass::Infrastructure, text: error.to_string() };
                (failed.encode(self.message_bytes).unwrap_or_default(), failed)
            }
        };
        println!("{}", String::from_utf8_lossy(&bytes));
        if let Err(error) = write(&self.termination_log, &bytes) {
            tracing::warn!(path = %self.termination_log.display(), %error, "cannot write the termination message");
        }
        match message {
            Message::Succeeded { .. } => 0,
            Message::Failed { class, .. } => exit_code(class),
        }
    }
}

/// The exit code after a failure of this class. 2 is the command line's own (a usage error), 1 an unclassified failure.
fn exit_code(class: FailureClass) -> u8 {
    match class {
        FailureClass::InsufficientMemory => 10,
        FailureClass::UnsupportedPrecision => 11,
        FailureClass::BadModel => 12,
        FailureClass::ImageMismatch => 13,
        FailureClass::Infrastructure => 14,
        FailureClass::MissingArtifact => 15,
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() { fs::write(path, bytes) } else { Ok(()) }
}
