//! A client in a pod of the scenario's namespace. Reads and writes IO.

use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, LogParams};
use serde_json::json;

use super::report::{Period, Report};
use crate::namespace::{Namespace, Outcome, ScenarioError};

/// Container and part of the pod's name.
const NAME: &str = "load";
/// Longest time from a pod to its first request.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that a request may take before it counts as failed; the pod is given more to end.
const REQUEST_TIMEOUT_SECONDS: i64 = 20;

/// What is asked, and how often.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Name of the agent.
    pub agent: String,
    /// Server.
    pub url: String,
    /// Host by which the gateway knows the agent's route, if there is a gateway.
    pub host: Option<String>,
    /// Whether requests share connections. A Service splits connections, not requests.
    pub keeps_connections: bool,
    /// Requests a second.
    pub rate: u32,
}

/// A client that runs. When it is dropped its pod goes on, until the namespace goes.
pub struct Load<'a> {
    namespace: &'a Namespace,
    pod: String,
}

impl Namespace {
    /// Starts a client and waits until it runs.
    ///
    /// # Errors
    /// When the API server refuses, or the pod does not start.
    pub async fn start_load(&self, plan: &LoadPlan) -> Outcome<Load<'_>> {
        self.start_load_with(plan, &[]).await
    }

    /// The same with questions, which are asked in turn.
    ///
    /// # Errors
    /// When the API server refuses, or the pod does not start.
    pub async fn start_load_with(&self, plan: &LoadPlan, questions: &[String]) -> Outcome<Load<'_>> {
        let pod = self.create_object(&pod(plan, questions)).await?;
        let pod = pod.metadata.name.unwrap_or_default();
        self.wait(&pod, "running", START_LIMIT, |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            if phase == "Running" { Ok(()) } else { Err(phase) }
        })
        .await?;
        Ok(Load { namespace: self, pod })
    }
}

impl Load<'_> {
    /// What it has reported so far, interval by interval.
    ///
    /// # Errors
    /// When the kubelet has no log, or it cannot be read.
    pub async fn intervals(&self) -> Outcome<Vec<Report>> {
        reports(self.namespace.log(&self.pod, NAME).await?.lines())
    }

    /// Waits until so many intervals were reported since now, and gives these.
    ///
    /// # Errors
    /// When the log cannot be read, or holds no further intervals.
    pub async fn next_intervals(&self, count: usize) -> Outcome<Vec<Report>> {
        let before = self.intervals().await?.len();
        // Intervals last ten seconds; a machine that is busy writes them later.
        for _ in 0..count * 60 {
            let seen = self.intervals().await?;
            if seen.len() >= before + count {
                return Ok(seen[before..].to_vec());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let last = format!("{} intervals", self.intervals().await?.len());
        let seconds = u64::try_from(count * 30).unwrap_or(u64::MAX);
        Err(ScenarioError::TimedOut { what: format!("{count} more intervals of {}", self.pod), seconds, last })
    }

    /// Waits for `count` intervals of a change that was just seen, without what was on its way when it was.
    ///
    /// The interval under way may end at once, so requests on their way may still end in the one after it: both are
    /// left out.
    ///
    /// # Errors
    /// As [`Load::next_intervals`].
    pub async fn settled_intervals(&self, count: usize) -> Outcome<Vec<Report>> {
        self.next_intervals(2).await?;
        self.next_intervals(count).await
    }

    /// Ends it and gives all reports: those of the intervals, and of all requests, none of which is in flight any more.
    ///
    /// # Errors
    /// When the pod cannot be ended, or its log has no summary.
    pub async fn stop(self) -> Outcome<(Vec<Report>, Report)> {
        let pods = self.namespace.api::<Pod>();
        let failed = |action: &str| {
            let action = format!("{action} {}", self.pod);
            move |source| ScenarioError::Kubernetes { action, source: Box::new(source) }
        };
        // The log goes with the pod, so it is followed while the pod ends.
        let params = LogParams { container: Some(NAME.to_owned()), follow: true, ..Default::default() };
        let log = pods.log_stream(&self.pod, &params).await.map_err(failed("follow the log of"))?;
        pods.delete(&self.pod, &DeleteParams::default()).await.map_err(failed("delete pod"))?;
        let lines: Vec<String> = log
            .lines()
            .try_collect()
            .await
            .map_err(|error| ScenarioError::Log { pod: self.pod.clone(), source: error })?;
        let mut reports = reports(lines.iter().map(String::as_str))?;
        match reports.pop() {
            Some(summary) if summary.period == Period::Summary => Ok((reports, summary)),
            last => Err(ScenarioError::TimedOut {
                what: format!("the summary of {}", self.pod),
                seconds: 0,
                last: format!("{last:?}"),
            }),
        }
    }
}

fn reports<'a>(lines: impl Iterator<Item = &'a str>) -> Outcome<Vec<Report>> {
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|text| {
            serde_json::from_str(text).map_err(|source| ScenarioError::Answer { text: text.to_owned(), source })
        })
        .collect()
}

fn pod(plan: &LoadPlan, questions: &[String]) -> Pod {
    let mut arguments = vec![
        NAME.to_owned(),
        format!("--url={}", plan.url),
        format!("--model={}", plan.agent),
        format!("--rate={}", plan.rate),
        format!("--timeout-seconds={REQUEST_TIMEOUT_SECONDS}"),
        format!("--wait-seconds={}", START_LIMIT.as_secs()),
    ];
    arguments.extend(questions.iter().map(|question| format!("--question={question}")));
    arguments.extend(plan.host.iter().map(|host| format!("--header=host: {host}")));
    if !plan.keeps_connections {
        arguments.push("--header=connection: close".to_owned());
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": format!("{NAME}-")},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": REQUEST_TIMEOUT_SECONDS + 10,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": NAME, "image": "slipway.dev/slipway-e2e:dev", "imagePullPolicy": "IfNotPresent",
                "args": arguments,
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    serde_json::from_value(pod).expect("a constant pod is one")
}
