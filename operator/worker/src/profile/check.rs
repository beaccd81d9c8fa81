//! Whether a task can be measured at all. Pure.

use std::collections::BTreeSet;

use slipway_backends::no_build;
use slipway_vocabulary::{ProfilingDriver, serving::Server};
use slipway_worker_contract::{AgentRunSettings, Arm, Campaign, Cell, Driver, LatencyMetric, ProfileTask};

use super::drivers;

/// A task that can be measured.
#[derive(Clone, Copy, Debug)]
pub enum CheckedTask<'a> {
    /// Arms x levels.
    Explore {
        /// At least one, with unique ids.
        arms: &'a [Arm],
        /// At least one, above 0.
        levels: &'a [u32],
        /// May be 0.
        max_measurements: u32,
        /// May be too little for one measurement.
        max_gpu_millis: u64,
        /// What generates the load.
        driver: &'a Driver,
    },
    /// Points, once each.
    Repeat {
        /// At least one, each once, above 0.
        points: &'a [Cell],
        /// May be too little for one measurement.
        max_gpu_millis: u64,
        /// What generates the load.
        driver: &'a Driver,
    },
    /// One point at a rate.
    Confirm {
        /// The chosen configuration.
        arm: &'a Arm,
        /// Above 0.
        level: u32,
        /// Above 0.
        arrivals_per_kilosecond: u64,
        /// Above 0.
        run_millis: u64,
        /// Agent runs.
        agent: &'a AgentRunSettings,
    },
}

/// Says why a task cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskProblem {
    /// Nothing to choose from.
    #[error("{0} is empty: give at least one")]
    Empty(&'static str),
    /// Two arms of one id, or an id that does not fit a row.
    #[error("the arm id {0:?} occurs twice, is empty or is longer than 40 characters")]
    ArmId(String),
    /// A level of 0 measures nothing.
    #[error("levels has a 0: give numbers of requests in flight")]
    Level,
    /// One measurement of a round would stand for two.
    #[error("points has {arm:?} at level {level} twice: give each point once")]
    Twice {
        /// The arm.
        arm: String,
        /// The level.
        level: u32,
    },
    /// The input hash names a folder.
    #[error("inputHash {0:?} has characters other than letters, digits and hyphens")]
    InputHash(String),
    /// The driver can measure none of what the objectives limit.
    #[error(
        "objective {objective:?} limits {metric}, but driver {driver} measures only {} and thus none of the objectives: add an objective on what it measures, or set profiling.driver to {other}",
        measures.iter().map(|metric| metric.as_str()).collect::<Vec<_>>().join(", ")
    )]
    Metric {
        /// The first objective.
        objective: String,
        /// What it limits.
        metric: LatencyMetric,
        /// The driver.
        driver: &'static str,
        /// What it measures.
        measures: &'static [LatencyMetric],
        /// A driver that measures more.
        other: &'static str,
    },
    /// A confirm run of nothing.
    #[error("{0} is 0: a confirm run needs a rate, a length and a limit of runs in flight")]
    Zero(&'static str),
    /// Model Analyzer has no way to it.
    #[error(
        "Model Analyzer supports only Triton, and {0}'s own server serves this engine: set profiling.driver to AgentRun"
    )]
    ServerDriver(&'static str),
    /// Model Analyzer has no open loop.
    #[error("a confirm run needs driver AgentRun: Model Analyzer sends requests in a closed loop")]
    ConfirmDriver,
}

impl<'a> CheckedTask<'a> {
    /// Checks a task.
    ///
    /// # Errors
    /// [`TaskProblem`] names the field and what to give.
    pub fn new(task: &'a ProfileTask) -> Result<Self, TaskProblem> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if task.input_hash.is_empty() || !task.input_hash.chars().all(allowed) {
            return Err(TaskProblem::InputHash(task.input_hash.clone()));
        }
        match &task.campaign {
            Campaign::Explore { arms, levels, max_measurements, max_gpu_millis, driver } => {
                check_arms(arms)?;
                check_levels(levels)?;
                check_objectives(task)?;
                check_server(task, driver)?;
                let (max_measurements, max_gpu_millis) = (*max_measurements, *max_gpu_millis);
                Ok(Self::Explore { arms, levels, max_measurements, max_gpu_millis, driver })
            }
            Campaign::Repeat { points, max_gpu_millis, driver } => {
                check_points(points)?;
                check_objectives(task)?;
                check_server(task, driver)?;
                Ok(Self::Repeat { points, max_gpu_millis: *max_gpu_millis, driver })
            }
            Campaign::Confirm { arm, level, arrivals_per_kilosecond, run_millis, driver } => {
                check_arms(std::slice::from_ref(arm))?;
                let numbers = [
                    ("level", u64::from(*level)),
                    ("arrivalsPerKilosecond", *arrivals_per_kilosecond),
                    ("runMillis", *run_millis),
                ];
                if let Some((name, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
                    return Err(TaskProblem::Zero(name));
                }
                let Driver::AgentRun(agent) = driver else { return Err(TaskProblem::ConfirmDriver) };
                check_objectives(task)?;
                let (level, arrivals_per_kilosecond, run_millis) = (*level, *arrivals_per_kilosecond, *run_millis);
                Ok(Self::Confirm { arm, level, arrivals_per_kilosecond, run_millis, agent })
            }
        }
    }
}

/// Whose own server serves the engine, if Triton does not.
fn own_server(task: &ProfileTask) -> Option<&'static str> {
    let backend = task.no_build.filter(|backend| backend.server() == Server::Own)?;
    Some(no_build::of(backend).product)
}

fn check_server(task: &ProfileTask, driver: &Driver) -> Result<(), TaskProblem> {
    match own_server(task).filter(|_| driver.kind().requires_triton()) {
        Some(product) => Err(TaskProblem::ServerDriver(product)),
        None => Ok(()),
    }
}

fn check_points(points: &[Cell]) -> Result<(), TaskProblem> {
    if points.is_empty() {
        return Err(TaskProblem::Empty("points"));
    }
    let mut seen = BTreeSet::new();
    for Cell { arm, level } in points {
        check_arms(std::slice::from_ref(arm))?;
        check_levels(&[*level])?;
        if !seen.insert((arm.id.as_str(), *level)) {
            return Err(TaskProblem::Twice { arm: arm.id.clone(), level: *level });
        }
    }
    Ok(())
}

fn check_levels(levels: &[u32]) -> Result<(), TaskProblem> {
    match levels {
        [] => Err(TaskProblem::Empty("levels")),
        levels if levels.contains(&0) => Err(TaskProblem::Level),
        _ => Ok(()),
    }
}

fn check_arms(arms: &[Arm]) -> Result<(), TaskProblem> {
    if arms.is_empty() {
        return Err(TaskProblem::Empty("arms"));
    }
    let mut seen = BTreeSet::new();
    for arm in arms {
        if arm.id.is_empty() || arm.id.chars().count() > 40 || !seen.insert(arm.id.as_str()) {
            return Err(TaskProblem::ArmId(arm.id.clone()));
        }
    }
    Ok(())
}

/// What a driver cannot measure is judged by another measurement; only a task without anything to judge is refused.
fn check_objectives(task: &ProfileTask) -> Result<(), TaskProblem> {
    let driver = drivers::driver(task);
    match task.objectives.first() {
        Some(o) if drivers::measurable(task).is_empty() => {
            let (objective, metric, other) = (o.name.clone(), o.metric, ProfilingDriver::AgentRun.as_str());
            let (driver, measures) = (driver.as_str(), driver.measures());
            Err(TaskProblem::Metric { objective, metric, driver, measures, other })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use slipway_worker_contract::{
        DataFile, Digest, EngineEntry, EngineRef, LatencyObjective, MeasureSettings, NoBuildBackend, OptimizeFor,
        Percentile, Runs, ServeConfig,
    };

    use super::*;

    fn task(campaign: Campaign) -> ProfileTask {
        ProfileTask {
            input_hash: "abc-1".into(),
            engine: EngineRef { identity: "e".into(), manifest_digest: Digest::from_bytes(&[1; 32]) },
            model: "agent".into(),
            entry: EngineEntry::Engine,
            tokenizer: None,
            no_build: None,
            loaded_at_start: false,
            gpus: 2,
            campaign,
            workloads: Vec::new(),
            objectives: Vec::new(),
            error_rate_max_ppm: None,
            optimize_for: OptimizeFor::Throughput,
            measure: MeasureSettings::default(),
            measured: Vec::new(),
            other_engines: Vec::new(),
            costs: None,
            first: None,
            target_per_kilosecond: None,
            gpu_limits: Vec::new(),
            expected: Vec::new(),
        }
    }

    fn explore(ids: &[&str], levels: &[u32], max_measurements: u32, max_gpu_millis: u64) -> ProfileTask {
        let arms = ids.iter().map(|id| Arm { id: (*id).into(), config: ServeConfig::default() }).collect();
        let (levels, driver) = (levels.to_vec(), Driver::ModelAnalyzer);
        task(Campaign::Explore { arms, levels, max_measurements, max_gpu_millis, driver })
    }

    fn problem(task: &ProfileTask) -> String {
        CheckedTask::new(task).unwrap_err().to_string()
    }

    #[test]
    fn empty_axes_doubled_arms_and_levels_of_nothing_are_refused() {
        assert_eq!(problem(&explore(&[], &[1], 1, 90_000)), "arms is empty: give at least one");
        assert_eq!(problem(&explore(&["a"], &[], 1, 90_000)), "levels is empty: give at least one");
        assert_eq!(problem(&explore(&["a"], &[0], 1, 90_000)), "levels has a 0: give numbers of requests in flight");
        assert!(problem(&explore(&["a", "a"], &[1], 1, 90_000)).starts_with("the arm id \"a\" occurs twice"));
    }

    #[test]
    fn points_that_are_measured_again_are_given_once_each() {
        let point = |id: &str, level| Cell { arm: Arm { id: id.into(), config: ServeConfig::default() }, level };
        let repeat = |points: &[Cell]| {
            task(Campaign::Repeat { points: points.to_vec(), max_gpu_millis: 1, driver: Driver::ModelAnalyzer })
        };
        assert!(CheckedTask::new(&repeat(&[point("a", 1), point("b", 1), point("a", 2)])).is_ok());
        assert_eq!(problem(&repeat(&[])), "points is empty: give at least one");
        assert_eq!(problem(&repeat(&[point("a", 0)])), "levels has a 0: give numbers of requests in flight");
        let twice = problem(&repeat(&[point("a", 1), point("a", 1)]));
        assert_eq!(twice, "points has \"a\" at level 1 twice: give each point once");
    }

    #[test]
    fn objectives_none_of_which_the_driver_can_measure_are_refused_with_the_remedy() {
        let mut task = explore(&["a"], &[1], 1, 90_000);
        let (metric, percentile, max_microseconds) = (LatencyMetric::TimeToFirstToken, Percentile::P95, 1);
        task.objectives = vec![LatencyObjective { name: "first".into(), metric, percentile, max_microseconds }];
        assert_eq!(
            problem(&task),
            "objective \"first\" limits TimeToFirstToken, but driver ModelAnalyzer measures only RequestLatency, RequestTimeToFirstToken and thus none of the objectives: add an objective on what it measures, or set profiling.driver to AgentRun"
        );
        let of_requests = LatencyObjective { metric: LatencyMetric::RequestLatency, ..task.objectives[0].clone() };
        task.objectives.push(of_requests.clone());
        assert!(CheckedTask::new(&task).is_ok(), "the other one is judged by the confirm run");
        assert_eq!(drivers::measurable(&task), [of_requests]);
    }

    #[test]
    fn model_analyzer_has_no_way_to_vllms_own_server() {
        let task = ProfileTask { no_build: Some(NoBuildBackend::VLLMOpenAI), ..explore(&["a"], &[1], 1, 90_000) };
        assert_eq!(
            problem(&task),
            "Model Analyzer supports only Triton, and vLLM's own server serves this engine: set profiling.driver to AgentRun"
        );
    }

    #[test]
    fn a_confirm_run_needs_agent_runs_and_numbers() {
        let trace = Runs::Recorded(DataFile { path: String::new(), digest: Digest::from_bytes(&[0; 32]) });
        let agent = Driver::AgentRun(AgentRunSettings {
            endpoint: String::new(),
            trace,
            timeout_millis: 1,
            recorded_replicas: None,
        });
        let confirm = |driver, run_millis| {
            let arm = Arm { id: "a".into(), config: ServeConfig::default() };
            task(Campaign::Confirm { arm, level: 1, arrivals_per_kilosecond: 1, run_millis, driver })
        };
        assert!(problem(&confirm(Driver::ModelAnalyzer, 1)).starts_with("a confirm run needs driver AgentRun"));
        assert!(problem(&confirm(agent, 0)).starts_with("runMillis is 0"));
    }

    #[test]
    fn an_input_hash_stays_in_its_folder() {
        let task = ProfileTask { input_hash: "../x".into(), ..explore(&["a"], &[1], 1, 90_000) };
        assert!(problem(&task).starts_with("inputHash \"../x\" has characters"));
    }
}
