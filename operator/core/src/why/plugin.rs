//! How a person decides what waits, by the plugin first: GitOps tools put a field of the spec back. Pure.

use std::fmt;

/// An AgentDeployment as the plugin's commands name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub agent: String,
    /// Its namespace.
    pub namespace: String,
}

impl Named {
    /// The plugin's command with a verb, as a person types it.
    pub fn command(&self, verb: &str) -> String {
        let Self { agent, namespace } = self;
        format!("`kubectl slipway {verb} {agent} -n {namespace}`")
    }

    /// How a canary is decided without a verdict.
    pub fn decided(&self) -> String {
        let [promote, abort] = ["promote", "abort"].map(|verb| self.command(verb));
        format!(
            "{promote} and {abort} decide without a verdict. The fields spec.rollout.promote and spec.rollout.abort do \
             the same"
        )
    }
}

/// A choice that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// Whose it is.
    pub named: Named,
    /// Hash of the plan.
    pub revision: String,
    /// Hash of the plan that serves.
    pub stable: String,
    /// What of the choice would change, as `field: from -> to`.
    pub choice: Vec<String>,
    /// Whether an edit of the spec led to it, or a campaign alone.
    pub is_of_edit: bool,
}

impl fmt::Display for Proposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named, revision, stable, choice, is_of_edit } = self;
        let (choice, approve) = (choice.join("; "), named.command("approve"));
        write!(
            f,
            "plan {revision} waits for approval while {stable} serves: {choice}. status.rollout.proposed lists every \
             change. To approve it, run {approve}, or set spec.rollout.approve to {revision}. "
        )?;
        if *is_of_edit {
            return f.write_str("To decline it, revert the edit");
        }
        let abort = named.command("abort");
        write!(f, "To decline it, run {abort}, or set spec.rollout.abort to {revision}")
    }
}
