//! Prometheus queries for the error budgets of an AgentDeployment. Pure.

use slipway_runtime_config::metrics::{Blame, RUNS_TOTAL, SLO_EVENTS_TOTAL};

use super::{
    Scope,
    objective::ERROR_RATE,
    recording::{increase, outcomes},
};

/// The time that a budget is for.
const WINDOW: &str = "30d";
/// How finely the age of old counters and of young ones is known. A step of a minute over 30 days would read forty
/// thousand samples of every series.
const RESOLUTIONS: [(&str, &str); 2] = [(WINDOW, "1h"), ("2h", "1m")];

/// Two expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetQueries {
    /// Runs of the last 30 days, by the labels `objective` and `good`.
    pub runs: String,
    /// Seconds since the first counters of these days. Nothing in the first minute of an agent.
    pub seconds: String,
}

/// The queries of an AgentDeployment. They add counters up pod by pod, as the recording rules do, but need no rules.
pub fn budget_queries(scope: &Scope<'_>) -> BudgetQueries {
    let latencies = format!("sum by (objective, good) ({})", increase(scope, SLO_EVENTS_TOTAL, "", WINDOW));
    let ended = |of: &[Blame], good: &str| {
        let matcher = format!(r#",outcome=~"{}""#, outcomes(of));
        let sum = format!("sum({})", increase(scope, RUNS_TOTAL, &matcher, WINDOW));
        let named = format!(r#"label_replace({sum}, "objective", "{ERROR_RATE}", "", "")"#);
        format!(r#"label_replace({named}, "good", "{good}", "", "")"#)
    };
    let runs = [latencies, ended(&[Blame::Success], "true"), ended(&[Blame::Error], "false")].join("\nor ");
    let first = RESOLUTIONS
        .map(|(window, step)| format!("min_over_time(timestamp({RUNS_TOTAL}{{{}}})[{window}:{step}])", scope.pods()));
    BudgetQueries { runs, seconds: format!("time() - min({})", first.join(" or ")) }
}
