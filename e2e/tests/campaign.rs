//! The search of a large space against brute force, on real pods: what it chooses, and what that costs. Run by hand,
//! because all of it takes half an hour on 16 cores: `e2e/run.sh campaign`, or `e2e/campaign/start.sh` elsewhere.
//!
//! Brute force measures every cell by the product itself, each in a campaign of its own. Its rows give the limit,
//! unless it is named, and the best cell by the product's own rule. Then the product searches all cells several times.
//! Brute force's best and what was chosen are measured again in turn. `SLIPWAY_CAMPAIGN_*` make it smaller (`grid.rs`).

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

#[path = "../campaign/figures.rs"]
mod figures;
#[path = "../campaign/grid.rs"]
mod grid;
#[path = "../campaign/report.rs"]
mod report;

use std::{
    env, fs,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DeleteParams;
use rand::{SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment, Profile, ProfileStatus,
        agent_deployment::LatencyMetric,
        profile::{Measurement, ProfileInputs, ProfilePhase},
    },
    values::Percentile,
};
use slipway_e2e::{
    agents::namespace_with_servers,
    namespace::{Namespace, Outcome},
};

use self::{
    figures::{Latency, Row},
    grid::{Cell, Grid, Settings},
    report::{Campaign, Kind, Report, markdown},
};

/// Longest time of a campaign over all cells.
const SEARCH_LIMIT: Duration = Duration::from_secs(2_400);
/// From the choice to the end of the last pod: its server ends after it.
const END_LIMIT: Duration = Duration::from_secs(60);
/// A limit that every cell meets, so that no level ends early.
const LAX: &str = "30s";

/// A campaign to come.
#[derive(Debug, Clone)]
struct Task {
    name: String,
    model: String,
    kind: Kind,
    number: usize,
    grid: Grid,
    limit: String,
}

/// Where campaigns run, and what they found.
struct Lab {
    namespace: Namespace,
    settings: Settings,
    agent: Value,
    report: Mutex<Report>,
}

impl Lab {
    async fn open() -> Self {
        let agent: Value = serde_norway::from_str(include_str!("../manifests/campaign/agent.yaml")).unwrap();
        let settings = Settings::read(&agent, |name| env::var(name).ok()).unwrap();
        let report = match settings.output.as_ref().and_then(|output| fs::read(output).ok()) {
            Some(kept) => serde_json::from_slice::<Report>(&kept).unwrap().resumed(&settings).unwrap(),
            None => Report::new(&settings),
        };
        let namespace = namespace_with_servers("campaign").await.unwrap();
        if namespace.api::<ConfigMap>().get_opt("demo-workload").await.unwrap().is_none() {
            namespace.give_workload().await.unwrap();
        }
        Self { namespace, settings, agent, report: Mutex::new(report) }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap()
    }

    /// Builds the engines of all models, each by an agent that stays: what is measured finds them.
    async fn build_engines(&self) {
        let build = |model: &String| {
            let task = Task {
                name: format!("{model}-engines"),
                model: model.clone(),
                kind: Kind::Brute,
                number: 0,
                grid: self.settings.grid.engines(),
                limit: LAX.to_owned(),
            };
            async move { self.ended(&task).await.unwrap() }
        };
        let started = Instant::now();
        let builds = self.settings.models.iter().map(build);
        stream::iter(builds).buffer_unordered(self.settings.parallel).collect::<Vec<_>>().await;
        println!("engines: {:.0} s", started.elapsed().as_secs_f64());
    }

    fn tasks(&self, cells: impl IntoIterator<Item = Cell>, named: impl Fn(usize, Cell) -> Task) -> Vec<Task> {
        let all = self.settings.grid.cells();
        let number = |cell: &Cell| all.iter().position(|known| known == cell).unwrap() + 1;
        cells.into_iter().map(|cell| named(number(&cell), cell)).collect()
    }

    /// Every cell by itself, in an order of no meaning, so that what comes slowly disturbs all alike. A limit that is
    /// named is brute force's too. Else its rows give the limit, and no level may end early.
    fn brute(&self, model: &str) -> Vec<Vec<Task>> {
        let mut cells = self.settings.grid.cells();
        cells.shuffle(&mut Pcg64Mcg::seed_from_u64(1));
        let tasks = self.tasks(cells, |number, cell| Task {
            name: format!("{model}-brute-{number:02}"),
            model: model.to_owned(),
            kind: Kind::Brute,
            number: 1,
            grid: Grid::only(&cell),
            limit: self.settings.limit.map_or_else(|| LAX.to_owned(), written),
        });
        tasks.into_iter().map(|task| vec![task]).collect()
    }

    /// The limit of a model: as it is named, or by brute force's rows.
    fn set_limit(&self, model: &str) -> Option<i64> {
        let mut report = self.report();
        if !report.limits.contains_key(model) {
            let limit = self.settings.limit.or_else(|| figures::limit_of(&report.brute(model)))?;
            report.limits.insert(model.to_owned(), limit);
        }
        report.limits.get(model).copied()
    }

    /// The contenders of brute force again, in turn, every other time in the opposite order.
    fn settle(&self, model: &str, limit: i64) -> Vec<Vec<Task>> {
        let contenders = figures::contenders(&self.report().brute(model), limit);
        let round = |round: usize| {
            let mut tasks = self.tasks(contenders.clone(), |number, cell| Task {
                name: format!("{model}-settle-{round}-{number:02}"),
                model: model.to_owned(),
                kind: Kind::Settle,
                number: round,
                grid: Grid::only(&cell),
                limit: written(limit),
            });
            if round.is_multiple_of(2) {
                tasks.reverse();
            }
            tasks
        };
        (1..=self.settings.settles).map(round).collect()
    }

    fn searches(&self, model: &str, limit: i64) -> Vec<Vec<Task>> {
        let search = |repetition| {
            vec![Task {
                name: format!("{model}-search-{repetition}"),
                model: model.to_owned(),
                kind: Kind::Search,
                number: repetition,
                grid: self.settings.grid.clone(),
                limit: written(limit),
            }]
        };
        (1..=self.settings.repetitions).map(search).collect()
    }

    /// Rounds in which brute force's best and every choice are measured, each beginning with another one.
    fn again(&self, model: &str, limit: i64) -> Vec<Vec<Task>> {
        let report = self.report();
        let Some(best) = report.best(model, limit).map(|row| row.cell.clone()) else { return Vec::new() };
        let others = report.choices(model).into_iter().filter(|choice| *choice != best);
        let cells: Vec<Cell> = std::iter::once(best.clone()).chain(others).collect();
        let round = |round: usize| {
            let mut cells = cells.clone();
            let first = (round - 1) % cells.len();
            cells.rotate_left(first);
            self.tasks(cells, |number, cell| Task {
                name: format!("{model}-again-{round:02}-{number:02}"),
                model: model.to_owned(),
                kind: Kind::Again,
                number: round,
                grid: Grid::only(&cell),
                limit: LAX.to_owned(),
            })
        };
        (1..=self.settings.rounds).map(round).collect()
    }

    /// Carries out sequences of campaigns, as many at once as the settings say; those of a sequence follow each other.
    async fn run(&self, what: &str, sequences: Vec<Vec<Task>>) {
        let started = Instant::now();
        let left = sequences.iter().flatten().filter(|task| !self.is_known(&task.name)).count();
        println!("{what}: {left} campaigns");
        let run = |sequence: Vec<Task>| async move {
            for task in sequence {
                if !self.is_known(&task.name) {
                    self.carry_out(&task).await;
                }
            }
        };
        stream::iter(sequences).for_each_concurrent(self.settings.parallel, run).await;
        println!("{what}: {:.0} s", started.elapsed().as_secs_f64());
    }

    fn is_known(&self, name: &str) -> bool {
        self.report().campaigns.contains_key(name)
    }

    /// One campaign, whose agent is then deleted. One that fails is told, and the others go on.
    async fn carry_out(&self, task: &Task) {
        let started = Instant::now();
        match self.campaign(task, started).await {
            Ok(campaign) => {
                let rows = campaign.rows.len();
                let at = campaign.choice.as_ref().map(Cell::to_string).unwrap_or_default();
                let (pods, all) = (campaign.pod_seconds, campaign.seconds);
                println!("  {}: {rows} rows, {pods:.0} pod-seconds, {all:.0} s; {at}", task.name);
                let mut report = self.report();
                report.campaigns.insert(task.name.clone(), campaign);
                self.keep(&report);
            }
            Err(error) => println!("  {}: failed: {error}", task.name),
        }
        let agents = self.namespace.api::<AgentDeployment>();
        if let Err(error) = agents.delete(&task.name, &DeleteParams::background()).await {
            println!("  {}: not deleted: {error}", task.name);
        }
    }

    async fn campaign(&self, task: &Task, started: Instant) -> Outcome<Campaign> {
        let profile = self.ended(task).await?;
        let seconds = started.elapsed().as_secs_f64();
        let pods = self.pod_seconds(profile.metadata.name.as_deref().unwrap_or_default()).await?;
        let (inputs, status) = (profile.spec.inputs, profile.status.unwrap_or_default());
        let choice = status.choice.as_ref().and_then(|choice| {
            let (engine, configuration) = (choice.engine.as_str(), choice.configuration.as_str());
            Cell::of_row(&inputs, (engine, configuration), choice.level)
        });
        Ok(Campaign {
            model: task.model.clone(),
            kind: task.kind.clone(),
            number: task.number,
            ended: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            seconds,
            pod_seconds: pods.iter().sum(),
            pods: pods.len(),
            choice,
            message: status.message.clone(),
            rows: rows(&inputs, &status),
        })
    }

    /// The manifest of a task: nothing of an earlier campaign is taken over, because its agent is another one.
    fn manifest(&self, task: &Task) -> Value {
        let mut agent = self.agent.clone();
        agent["metadata"]["name"] = json!(task.name);
        let spec = &mut agent["spec"];
        spec["model"]["uri"] = json!(format!("http://models/{}/", task.model));
        spec["search"] = task.grid.search();
        spec["slo"]["objectives"][0]["max"] = json!(task.limit);
        let cpu = json!({"cpu": self.settings.cpus});
        spec["serving"]["tritonResources"] = json!({"requests": cpu, "limits": cpu});
        agent
    }

    async fn ended(&self, task: &Task) -> Outcome<Profile> {
        self.namespace.apply(&self.manifest(task)).await?;
        let named = |object: &AgentDeployment| {
            let status = object.status.clone().unwrap_or_default();
            status
                .profile
                .ok_or_else(|| format!("{:?}", status.conditions.iter().map(|c| &c.message).collect::<Vec<_>>()))
        };
        let profile = self.namespace.wait(&task.name, "with a campaign", SEARCH_LIMIT, named).await?;
        self.namespace
            .wait(&profile, "ended", SEARCH_LIMIT, |object: &Profile| {
                let status = object.status.clone().unwrap_or_default();
                match status.phase {
                    Some(ProfilePhase::Chosen | ProfilePhase::Infeasible | ProfilePhase::Failed) => Ok(object.clone()),
                    None | Some(ProfilePhase::Exploring | ProfilePhase::Confirming) => Err(status.message),
                }
            })
            .await
    }

    /// The time of each pod of a campaign, from its start to the end of its last container.
    async fn pod_seconds(&self, profile: &str) -> Outcome<Vec<f64>> {
        let deadline = Instant::now() + END_LIMIT;
        loop {
            let pods = self.namespace.pods(&format!("{}={profile}", labels::PROFILE)).await?;
            let seconds: Vec<f64> = pods.iter().filter_map(seconds_of).collect();
            if seconds.len() == pods.len() || Instant::now() > deadline {
                return Ok(seconds);
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// Whole or not at all: a run that is cut off leaves what it has.
    fn keep(&self, report: &Report) {
        let Some(output) = &self.settings.output else { return };
        let partial = output.with_extension("partial");
        fs::write(&partial, serde_json::to_vec_pretty(report).unwrap()).unwrap();
        fs::rename(&partial, output).unwrap();
    }
}

/// A limit as the spec has it.
fn written(micros: i64) -> String {
    format!("{micros}us")
}

fn rows(inputs: &ProfileInputs, status: &ProfileStatus) -> Vec<Row> {
    let row = |row: &Measurement| {
        let is_limited = |l: &&slipway_crds::v1alpha1::profile::MeasuredLatency| {
            (l.metric, l.percentile) == (LatencyMetric::RequestLatency, Percentile::P90)
        };
        let latency = row.latencies.iter().find(is_limited);
        Some(Row {
            cell: Cell::of_row(inputs, (&row.engine, &row.configuration), row.level)?,
            purpose: row.purpose,
            verdict: row.verdict,
            count: row.count,
            milliseconds: row.milliseconds,
            per_kilosecond: row.per_kilosecond,
            per_kilosecond_error: row.per_kilosecond_error,
            latency: latency.map(|l| Latency { microseconds: l.microseconds, lower: l.lower, upper: l.upper }),
            gpu_milliseconds: row.gpu_milliseconds,
        })
    };
    status.measurements.iter().filter_map(row).collect()
}

/// Nothing while a container of the pod runs.
fn seconds_of(pod: &Pod) -> Option<f64> {
    let status = pod.status.as_ref()?;
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let began = status.start_time.as_ref().filter(|_| has_ended)?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let ends = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    let ended = ends.map(|end| end.0.as_second()).max()?;
    Some((ended - began.0.as_second()) as f64)
}

#[tokio::test]
async fn the_search_chooses_as_well_as_brute_force_in_a_quarter_of_its_pod_seconds() {
    let lab = Lab::open().await;
    let models = &lab.settings.models;
    lab.build_engines().await;
    lab.run("brute force", models.iter().flat_map(|model| lab.brute(model)).collect()).await;
    let limits: Vec<_> = models.iter().filter_map(|model| Some((model, lab.set_limit(model)?))).collect();
    assert_eq!(limits.len(), models.len(), "brute force has no rows of a model");
    let all = |tasks: &dyn Fn(&str, i64) -> Vec<Vec<Task>>| -> Vec<Vec<Task>> {
        limits.iter().flat_map(|(model, limit)| tasks(model, *limit)).collect()
    };
    lab.run("contenders of brute force", all(&|model, limit| lab.settle(model, limit))).await;
    lab.run("searches", all(&|model, limit| lab.searches(model, limit))).await;
    lab.run("again, in turn", all(&|model, limit| lab.again(model, limit))).await;

    let summaries: Vec<_> = {
        let mut report = lab.report();
        report.summary = models.iter().filter_map(|model| report.summary_of(model)).collect();
        lab.keep(&report);
        report.summary.clone()
    };
    println!("\n{}", markdown(&summaries));
    let passed: Vec<_> = summaries.iter().map(|summary| (summary.model.clone(), summary.has_passed())).collect();
    if lab.settings.is_full {
        let expected: Vec<_> = models.iter().map(|model| (model.clone(), true)).collect();
        pretty_assertions::assert_eq!(passed, expected);
    } else {
        println!("gates, which only a whole run is held to: {passed:?}");
    }
    lab.namespace.delete().await.unwrap();
}
