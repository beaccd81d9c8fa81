//! The cluster that scenarios run on. Reads the environment; reads and writes IO.

use std::{
    env, io,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use thiserror::Error;

use crate::agents::path;

/// Names the kubeconfig of the cluster. The ambient KUBECONFIG is never used: it may be someone's production.
pub const KUBECONFIG: &str = "SLIPWAY_E2E_KUBECONFIG";

/// Names the kubectl that scenarios run.
pub const KUBECTL: &str = "SLIPWAY_E2E_KUBECTL";

/// Why there is no cluster to run on.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// No cluster was named.
    #[error("{KUBECONFIG} names no kubeconfig: run the scenarios with `make test-api` or `make test-scenarios`")]
    Unnamed,
    /// The kubeconfig cannot be read.
    #[error("failed to read the kubeconfig {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The client cannot be set up.
    #[error("failed to set up a client")]
    Client(#[source] kube::Error),
}

/// Names the kubectl plugin.
pub const CLI: &str = "SLIPWAY_E2E_CLI";

/// Names the cluster, as the scripts of e2e/cluster do.
pub const NAME: &str = "SLIPWAY_E2E_CLUSTER_NAME";

/// Runs a command on the node itself.
///
/// # Errors
/// When it cannot be started.
pub fn on_node(command: &[&str]) -> io::Result<Output> {
    node_command(command).output()
}

/// Starts a command on the node itself, whose input and output are at hand.
///
/// # Errors
/// When it cannot be started.
pub fn start_on_node(command: &[&str]) -> io::Result<Child> {
    node_command(command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn node_command(command: &[&str]) -> Command {
    let mut enter = Command::new(path("cluster/enter.sh"));
    enter.arg("--name").arg(env::var_os(NAME).unwrap_or_default()).args(command);
    enter
}

/// Disturbs the control plane, or ends that.
///
/// # Errors
/// When the script cannot be started.
pub fn control_plane(command: &[&str]) -> io::Result<Output> {
    let name = env::var_os(NAME).unwrap_or_default();
    Command::new(path("cluster/control-plane.sh")).arg("--name").arg(name).args(command).output()
}

/// Runs kubectl, as a user does.
///
/// # Errors
/// When kubectl cannot be started.
pub fn kubectl(arguments: &[&str]) -> io::Result<Output> {
    let program = env::var_os(KUBECTL).unwrap_or_default();
    let kubeconfig = env::var_os(KUBECONFIG).unwrap_or_default();
    Command::new(program).arg("--kubeconfig").arg(kubeconfig).args(arguments).output()
}

/// Runs the kubectl plugin, as a user does.
///
/// # Errors
/// When it cannot be started.
pub fn slipway(arguments: &[&str]) -> io::Result<Output> {
    let program = env::var_os(CLI).unwrap_or_default();
    let kubeconfig = env::var_os(KUBECONFIG).unwrap_or_default();
    Command::new(program).arg("--kubeconfig").arg(kubeconfig).args(arguments).output()
}

/// A client of the cluster that scenarios run on.
///
/// # Errors
/// When no cluster was named, or its kubeconfig cannot be used.
pub async fn client() -> Result<Client, ClusterError> {
    let path = PathBuf::from(env::var_os(KUBECONFIG).ok_or(ClusterError::Unnamed)?);
    let read = |source| ClusterError::Read { path: path.clone(), source };
    let kubeconfig = Kubeconfig::read_from(&path).map_err(read)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(read)?;
    Client::try_from(config).map_err(ClusterError::Client)
}
