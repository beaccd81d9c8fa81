//! What a Job is for. Pure.

use std::fmt;

/// What a Job is for. Decisions read it here, never in the name of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Says what the model's reference stands for.
    Resolve,
    /// Copies the checkpoint into the artifact store.
    Fetch,
    /// Builds an engine.
    Build,
    /// Scores an engine's answers.
    Quality,
    /// Measures an engine.
    Profile,
}

impl JobKind {
    /// The name in the status, and the first part of the Job's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Fetch => "fetch",
            Self::Build => "build",
            Self::Quality => "quality",
            Self::Profile => "profile",
        }
    }
}

/// A Job, by what it is for and by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// What it is for.
    pub kind: JobKind,
    /// Its name.
    pub name: String,
}

impl JobRef {
    /// How it failed for good, for people. `attempts` are those that failed so, where there were several.
    pub fn failed(&self, class: &str, failure: &str, attempts: Option<i32>) -> String {
        let tries = attempts.map(|count| format!(", the last of {count} attempts")).unwrap_or_default();
        format!("Job {self} failed ({class}){tries}: {failure}")
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::JobKind;

    /// Statuses in users' clusters hold them, and names of Jobs begin with them.
    #[test]
    fn the_names_of_kinds_stay() {
        let kinds = [JobKind::Resolve, JobKind::Fetch, JobKind::Build, JobKind::Quality, JobKind::Profile];
        assert_eq!(kinds.map(JobKind::as_str), ["resolve", "fetch", "build", "quality", "profile"]);
    }
}
