//! kube-router on the cluster's node: it enforces NetworkPolicies, which the cluster's bridge alone does not. It ends
//! with the scenario, and its rules with it. Reads the environment; reads and writes IO.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a scenario ends where it cannot go on")]

use std::{
    env,
    process::Child,
    time::{Duration, Instant},
};

use crate::cluster;

/// Names the binary.
const PROGRAM: &str = "SLIPWAY_E2E_KUBE_ROUTER";
/// Its number on the node, and what it prints.
const PID_FILE: &str = "/run/kube-router.pid";
const LOG: &str = "/var/log/kube-router.log";
/// The chain through which it leads what is forwarded to pods.
const CHAIN: &str = "KUBE-ROUTER-FORWARD";
const START_LIMIT: Duration = Duration::from_secs(60);

/// The running program.
#[derive(Debug)]
pub struct PolicyEnforcer {
    program: String,
    entered: Child,
}

impl PolicyEnforcer {
    /// Starts it, and waits until it has made its rules.
    ///
    /// # Panics
    /// When it does not start, with what it printed.
    #[must_use]
    pub fn start() -> Self {
        let program = env::var(PROGRAM).unwrap_or_else(|_| panic!("{PROGRAM} names no binary"));
        let kubeconfig = env::var(cluster::KUBECONFIG).unwrap();
        let node = "slipway";
        let script = format!(
            "echo $$ >{PID_FILE}; exec {program} --run-router=false --run-service-proxy=false --run-firewall=true \
             --kubeconfig={kubeconfig} --hostname-override={node} --service-cluster-ip-range=10.96.0.0/16 \
             >{LOG} 2>&1"
        );
        let enforcer = Self { program, entered: cluster::start_on_node(&["sh", "-c", &script]).unwrap() };
        let deadline = Instant::now() + START_LIMIT;
        while !has_rules() {
            assert!(Instant::now() < deadline, "kube-router does not start: {}", printed());
            std::thread::sleep(Duration::from_millis(500));
        }
        enforcer
    }
}

impl Drop for PolicyEnforcer {
    fn drop(&mut self) {
        let remove = format!("kill $(cat {PID_FILE}); {} --cleanup-config", self.program);
        let _ = cluster::on_node(&["sh", "-c", &remove]);
        let _ = self.entered.wait();
    }
}

fn has_rules() -> bool {
    let output = cluster::on_node(&["iptables", "-S", "FORWARD"]).unwrap();
    String::from_utf8_lossy(&output.stdout).contains(CHAIN)
}

fn printed() -> String {
    cluster::on_node(&["tail", "-n", "20", LOG])
        .map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}
