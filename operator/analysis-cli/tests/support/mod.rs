//! Runs the built binary on files of a temporary directory.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run of the binary gave.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error, the temporary directory replaced by `DIR`.
    pub stderr: String,
}

/// A directory of input files and the binary beside it.
pub struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// An empty directory.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs the binary in the directory.
    pub fn run(&self, args: &[&str]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_slipway-analysis"))
            .current_dir(self.dir.path())
            .args(args)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let stderr = text(output.stderr).replace(&display(self.dir.path()), "DIR");
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr }
    }

    /// Runs the binary, expects the exit code of bad input and an empty stdout, and returns the message.
    #[allow(dead_code)] // not every suite that shares this module gives bad input
    pub fn refusal(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        ran.stderr.trim_end().trim_start_matches("slipway-analysis: ").to_owned()
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
