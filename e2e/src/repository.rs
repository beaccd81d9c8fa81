//! A Git repository on this machine, as a team commits to it. What fails there ends the scenario. Reads and writes IO.

#![allow(clippy::unwrap_used, reason = "a scenario ends where it cannot go on")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The branch that a GitOps tool follows.
pub const BRANCH: &str = "main";
/// The folder of a repository with one manifest.
pub const FOLDER: &str = "agents";
const FILE: &str = "agent.yaml";

/// A repository with a manifest in each of its folders.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
}

impl Repository {
    /// Makes an empty one, in the folder's `repository`.
    ///
    /// # Panics
    /// When Git does not do it.
    pub fn create(folder: &Path) -> Self {
        let repository = Self { folder: folder.join("repository") };
        fs::create_dir_all(&repository.folder).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch", BRANCH]);
        repository
    }

    /// Its URL, on this machine.
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    /// Commits a manifest; gives the commit.
    ///
    /// # Panics
    /// When Git does not do it.
    pub fn commit(&self, manifest: &Value, message: &str) -> String {
        self.commit_to(&[(FOLDER, manifest)], message)
    }

    /// Commits manifests in folders of their own; gives the commit.
    ///
    /// # Panics
    /// When Git does not do it.
    pub fn commit_to(&self, manifests: &[(&str, &Value)], message: &str) -> String {
        for (folder, manifest) in manifests {
            let folder = self.folder.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(FILE), serde_norway::to_string(manifest).unwrap()).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.head()
    }

    /// Moves another branch to a commit, as a pipeline does.
    ///
    /// # Panics
    /// When Git does not do it.
    pub fn promote(&self, commit: &str, branch: &str) {
        self.git(&["branch", "--force", branch, commit]);
    }

    /// Reverts the latest commit; gives the commit that does.
    ///
    /// # Panics
    /// When Git does not do it.
    pub fn revert(&self) -> String {
        self.git(&["revert", "--no-edit", "HEAD"]);
        self.head()
    }

    fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=team", "-c", "user.email=team@example.com", "-C"])
            .arg(&self.folder)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
