//! What a slow node does to a pod, on a cluster of one node. For a part of the time none of the pod's processes runs,
//! as where a hypervisor gives the node's processors to others. Reads the environment; reads and writes IO.

use std::{
    io::{BufRead, BufReader},
    process::Child,
    time::Duration,
};

use crate::{
    cluster,
    namespace::{Outcome, ScenarioError},
};

/// Stops and continues the processes of the pod `$1`: they run for `$2` seconds, then stand for `$3`. Ends with its
/// input, and never before they run again. What it waits with is the reading of that input, so it starts no process.
const SCRIPT: &str = r#"
root=/sys/fs/cgroup
[[ ! -d $root/pids ]] || root=$root/pids
mapfile -t groups < <(find "$root" -path "*/pod$1/*" -name cgroup.procs)
send() {
  local group pids
  for group in "${groups[@]}"; do
    mapfile -t pids 2>/dev/null <"$group"
    [[ ${#pids[@]} == 0 ]] || kill "-$1" "${pids[@]}" 2>/dev/null
  done
}
goes_on() { read -rt "$1" _; [[ $? -gt 128 ]]; }
trap 'send CONT' EXIT
echo "${#groups[@]}"
while goes_on "$2"; do
  send STOP
  goes_on "$3" || break
  send CONT
done
"#;

/// A pod whose node is slow, until this is dropped.
pub struct SlowNode {
    child: Child,
}

impl SlowNode {
    /// Slows what runs in a pod, by its UID.
    ///
    /// # Errors
    /// When the node does not know the pod, or runs no command.
    pub fn of_pod(uid: &str, (runs, stands): (Duration, Duration)) -> Outcome<Self> {
        let refused = |failure: String| ScenarioError::Refused { what: format!("slowing pod {uid}"), failure };
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let command = ["bash", "-c", SCRIPT, "slow-node", uid, &seconds(runs), &seconds(stands)];
        let child = cluster::start_on_node(&command).map_err(|error| refused(error.to_string()))?;
        // From here on what was started ends with the value.
        let mut slow = Self { child };
        let mut containers = String::new();
        if let Some(output) = slow.child.stdout.as_mut() {
            let read = BufReader::new(output).read_line(&mut containers);
            read.map_err(|error| refused(error.to_string()))?;
        }
        match containers.trim().parse::<u32>() {
            Ok(1..) => Ok(slow),
            _ => Err(refused(format!("its containers on the node, by their cgroups: {containers:?}"))),
        }
    }
}

impl Drop for SlowNode {
    fn drop(&mut self) {
        // The script reads the end of its input, lets the pod run and ends.
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("failed to wait for the end of a slow node: {error}");
        }
    }
}
