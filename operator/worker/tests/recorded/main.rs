//! Searches on the recorded grids of campaigns on real pods: what a campaign would spend, and what it would choose.
//!
//! Every cell answers as its row says: a closed loop with its throughput and its p90, whose requests are lognormal. A
//! measurement is off by 7 %, because neighbours on the machine disturbed the real ones by as much. Search, chunks,
//! early end and verdict are the product's own; only time is made up. A machine under the load of several searches is
//! slower than brute force found it, so each grid is played twice.

#![allow(clippy::unwrap_used, reason = "a grid that cannot be read has nothing to say")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use slipway_worker_contract::{
    Arm, Campaign, Digest, Driver, EngineEntry, EngineRef, LatencyMetric, LatencyObjective, MeasureSettings,
    MeasurementVerdict, OptimizeFor, OtherEngine, Percentile, ProfileTask, Row, ServeConfig,
};

use slipway_worker::profile::{
    chunks::{self, SoFar},
    judge::{self, Rules},
    records::{Chunk, Circumstances, Records, Request, steady},
    search::{Guided, Next, Plan, Search, ToBeat},
    watch::{Decision, Watch},
};

/// From the start of a pod to its first load, and from its last row to its end, in milliseconds.
const POD_MILLIS: u64 = 9_600;
/// Load of a model, start of Model Analyzer and warm-up of a row.
const ROW_MILLIS: u64 = 12_000;
/// Start of perf_analyzer, ramp and drain of a chunk.
const CHUNK_MILLIS: u64 = 500;
/// By how much a whole measurement is off, as a standard deviation in ln.
const DISTURBED: f64 = 0.07;
/// By how much some seconds of one are off.
const UNREST: f64 = 0.05;
/// Of how long such seconds are.
const UNREST_NANOS: f64 = 2e9;
/// The part of a request's round that the client spends, and no latency shows.
const CLIENT: f64 = 0.08;
const LEVELS: [u32; 4] = [2, 4, 8, 16];
/// How the operator orders engines, and the other way round.
const FEWER_BITS_FIRST: [&str; 2] = ["INT8", "FP32"];
const FEWER_BITS_LAST: [&str; 2] = ["FP32", "INT8"];
/// More than there are.
const MOST_ROWS: u32 = 200;
/// A limit that every cell meets, so that brute force ends no level early.
const LAX_MICROS: u64 = 30_000_000;

/// Precision, configuration, level.
type Key = (String, String, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Truth {
    per_second: f64,
    p90_micros: f64,
}

/// A recorded campaign.
struct Grid {
    name: &'static str,
    limit_micros: u64,
    cells: BTreeMap<Key, Truth>,
}

fn id(cell: &Value) -> String {
    let text = |name: &str| cell[name].to_string().replace('"', "");
    format!("x{}-b{}-d{}", text("instances"), text("batch"), text("delay"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn key(cell: &Value) -> Key {
    (cell["precision"].as_str().unwrap_or_default().to_owned(), id(cell), number(&cell["level"]) as u32)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Grid {
    /// `loaded` takes what the searches measured, and slows all other cells down as much as these were.
    fn read(name: &'static str, text: &str, loaded: bool) -> Self {
        let file: Value = serde_json::from_str(text).expect("the rows of a campaign");
        let limit_micros =
            file["limits"].as_object().and_then(|limits| limits.values().next()).map_or(0.0, number) as u64;
        let campaigns = || file["campaigns"].as_object().into_iter().flatten().map(|(_, campaign)| campaign);
        let rows = |kind: &'static str| {
            let of = campaigns().filter(move |campaign| campaign["kind"] == kind);
            of.flat_map(|campaign| campaign["rows"].as_array().into_iter().flatten())
        };
        let truth = |row: &Value| Truth {
            per_second: number(&row["perKilosecond"]) / 1e3,
            p90_micros: number(&row["latency"]["microseconds"]),
        };
        let mut cells: BTreeMap<_, _> = rows("brute").map(|row| (key(&row["cell"]), truth(row))).collect();
        if loaded {
            let mut seen: BTreeMap<_, Vec<Truth>> = BTreeMap::new();
            rows("search").for_each(|row| seen.entry(key(&row["cell"])).or_default().push(truth(row)));
            let of = |seen: &[Truth]| Truth {
                per_second: median(seen.iter().map(|t| t.per_second).collect()).unwrap_or_default(),
                p90_micros: median(seen.iter().map(|t| t.p90_micros).collect()).unwrap_or_default(),
            };
            let slower = |figure: fn(&Truth) -> f64| {
                median(seen.iter().map(|(key, seen)| figure(&of(seen)) / figure(&cells[key])).collect()).unwrap_or(1.0)
            };
            let (rate, time) = (slower(|t| t.per_second), slower(|t| t.p90_micros));
            for (key, cell) in &mut cells {
                *cell = match seen.get(key) {
                    Some(seen) => of(seen),
                    None => Truth { per_second: cell.per_second * rate, p90_micros: cell.p90_micros * time },
                };
            }
        }
        Self { name, limit_micros, cells }
    }

    fn all() -> Vec<Self> {
        let react_512 = include_str!("../../../../e2e/campaign/results/react-512-2026-11-26.json");
        let react_256 = include_str!("../../../../e2e/campaign/results/react-256-2026-11-26.json");
        vec![
            Self::read("react-512", react_512, false),
            Self::read("react-512, loaded", react_512, true),
            Self::read("react-256", react_256, false),
            Self::read("react-256, loaded", react_256, true),
        ]
    }

    fn arms(&self) -> Vec<Arm> {
        let ids: BTreeSet<_> = self.cells.keys().map(|(_, id, _)| id.clone()).collect();
        let arm = |id: String| {
            let parts: Vec<&str> = id.split('-').map(|part| &part[1..]).collect();
            let parameters =
                [("max_batch", parts[1]), ("execute_delay_milliseconds", parts[2])].map(|(k, v)| (k.into(), v.into()));
            let config = ServeConfig {
                instances: parts[0].parse().ok(),
                parameters: parameters.into_iter().collect(),
                ..ServeConfig::default()
            };
            Arm { id, config }
        };
        ids.into_iter().map(arm).collect()
    }

    fn task(&self) -> ProfileTask {
        ProfileTask {
            input_hash: "h".into(),
            engine: EngineRef { identity: "e".into(), manifest_digest: Digest::from_bytes(&[1; 32]) },
            model: "agent".into(),
            entry: EngineEntry::Engine,
            tokenizer: None,
            no_build: None,
            loaded_at_start: false,
            gpus: 0,
            campaign: Campaign::Explore {
                arms: self.arms(),
                levels: LEVELS.to_vec(),
                max_measurements: 200,
                max_gpu_millis: 10_000_000,
                driver: Driver::ModelAnalyzer,
            },
            workloads: Vec::new(),
            objectives: vec![self.objective(self.limit_micros)],
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

    fn objective(&self, max_microseconds: u64) -> LatencyObjective {
        LatencyObjective {
            name: "reply".into(),
            metric: LatencyMetric::RequestLatency,
            percentile: Percentile::P90,
            max_microseconds,
        }
    }

    fn best(&self) -> f64 {
        let met = self.cells.values().filter(|cell| cell.p90_micros <= self.limit_micros as f64);
        met.map(|cell| cell.per_second).fold(0.0, f64::max)
    }

    /// One row, as a pod would measure it.
    fn measure(&self, cell: &Key, limit: u64, to_beat: Option<&ToBeat>, rng: &mut Pcg64Mcg) -> Row {
        let objectives = [self.objective(limit)];
        let (level, measure) = (cell.2, MeasureSettings::default());
        let mut server = Server::new(self.cells[cell], level, rng);
        let mut watch = Watch::new(&objectives, LatencyMetric::RequestLatency, level)
            .against(to_beat)
            .for_the_sake_of(OptimizeFor::Throughput);
        let mut so_far = SoFar { chunks: 0, kept: 0, elapsed_millis: 0, rate: self.cells[cell].per_second };
        let mut done: Vec<Chunk> = Vec::new();
        let ended = loop {
            let Some(size) = chunks::next(&measure, &so_far) else { break "used up".to_owned() };
            let chunk = steady(&server.requests(size + 2 * u64::from(level), rng), level).expect("enough requests");
            watch.begin_part();
            watch.observe(&chunk.requests);
            let millis = chunk.window_nanos / 1_000_000;
            so_far = SoFar {
                chunks: so_far.chunks + 1,
                kept: so_far.kept + chunk.requests.len() as u64,
                elapsed_millis: so_far.elapsed_millis + millis + CHUNK_MILLIS,
                rate: chunk.requests.len() as f64 / (chunk.window_nanos as f64 / 1e9),
            };
            done.push(chunk);
            match watch.decide(Duration::from_millis(so_far.elapsed_millis)) {
                Decision::GoOn => {}
                Decision::Stop(reason) => break reason,
            }
        };
        let circumstances =
            Circumstances { gpu_millis: ROW_MILLIS + so_far.elapsed_millis, ended, ..Circumstances::default() };
        let records = Records {
            format_version: 1,
            metric: LatencyMetric::RequestLatency,
            arm: cell.1.clone(),
            level,
            circumstances,
            chunks: done,
        };
        judge::row(&records, &Rules { objectives: objectives.to_vec(), ..Rules::default() })
    }

    /// The pod-seconds of brute force, each cell in a pod of its own, on average.
    fn brute_seconds(&self, limit: u64, seeds: u64) -> f64 {
        let one = |seed| {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let millis: u64 =
                self.cells.keys().map(|cell| POD_MILLIS + self.measure(cell, limit, None, &mut rng).gpu_millis).sum();
            millis as f64 / 1e3
        };
        (0..seeds).map(one).sum::<f64>() / seeds as f64
    }

    /// A campaign over engines in this order.
    fn campaign(&self, order: [&str; 2], rng: &mut Pcg64Mcg) -> Found {
        let mut found = Found::default();
        for engine in order {
            let rows = self.measured(engine, &found, rng);
            found.engines.push((engine.to_owned(), rows));
        }
        found
    }

    /// What the Job of an engine measures, which knows the rows of those before it.
    fn measured(&self, engine: &str, found: &Found, rng: &mut Pcg64Mcg) -> Vec<Row> {
        let other = |(name, rows): &(String, Vec<Row>)| OtherEngine {
            name: name.clone(),
            gpus: 0,
            microdollars_per_hour: None,
            rows: rows.clone(),
            expected: Vec::new(),
        };
        let arms = self.arms();
        let task = ProfileTask { other_engines: found.engines.iter().map(other).collect(), ..self.task() };
        let search = Guided::new(&task, Plan::new(&arms, &LEVELS, MOST_ROWS, 0));
        let mut rows: Vec<Row> = Vec::new();
        while let Next::Measure { arm, level } = search.next(&rows) {
            let cell = (engine.to_owned(), arms[arm].id.clone(), level);
            let row = self.measure(&cell, self.limit_micros, search.to_beat(&rows).as_ref(), rng);
            rows.push(row);
        }
        rows
    }
}

/// A closed loop with a truth.
struct Server {
    level: usize,
    mean_nanos: f64,
    sigma: f64,
    unrest: (f64, f64),
}

impl Server {
    fn new(truth: Truth, level: u32, rng: &mut Pcg64Mcg) -> Self {
        let factor = (DISTURBED * normal(rng)).exp();
        let mean = f64::from(level) / truth.per_second;
        // The p90 of a lognormal of this mean is as many times the mean.
        let ratio = (truth.p90_micros / 1e6 / (mean * (1.0 - CLIENT))).ln().clamp(0.02, 0.8);
        const P90: f64 = 1.281_551_565_5;
        let sigma = P90 - (P90 * P90 - 2.0 * ratio).max(0.0).sqrt();
        Self { level: level as usize, mean_nanos: mean * factor * 1e9, sigma, unrest: (0.0, 1.0) }
    }

    fn requests(&mut self, count: u64, rng: &mut Pcg64Mcg) -> Vec<Request> {
        let mut free: Vec<f64> = (0..self.level).map(|slot| slot as f64 * 1e6).collect();
        let mut requests = Vec::new();
        self.unrest = (0.0, 1.0);
        for _ in 0..count {
            let slot = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or_default();
            let now = free[slot];
            if now >= self.unrest.0 {
                self.unrest = (now + UNREST_NANOS, (UNREST * normal(rng)).exp());
            }
            let own = (self.sigma * normal(rng) - self.sigma * self.sigma / 2.0).exp();
            let latency = self.mean_nanos * (1.0 - CLIENT) * own * self.unrest.1;
            requests.push(Request::new(now as u64, (now + latency) as u64));
            free[slot] = now + latency + self.mean_nanos * CLIENT;
        }
        requests.sort();
        requests
    }
}

fn normal(rng: &mut Pcg64Mcg) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// The rows of each engine, in the order of measuring.
#[derive(Default)]
struct Found {
    engines: Vec<(String, Vec<Row>)>,
}

impl Found {
    fn rows(&self) -> impl Iterator<Item = (&String, &Row)> {
        self.engines.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)))
    }

    /// Pod-seconds.
    fn seconds(&self) -> f64 {
        let rows: u64 = self.rows().map(|(_, row)| row.gpu_millis).sum();
        (self.engines.len() as u64 * POD_MILLIS + rows) as f64 / 1e3
    }

    /// The choice by the rule of the product, without the rounds of close points.
    fn choice(&self) -> Option<Key> {
        let feasible = || self.rows().filter(|(_, row)| row.verdict == MeasurementVerdict::Feasible);
        let most = feasible().map(|(_, row)| row.per_kilosecond).max()? as f64;
        let p90 = |row: &Row| row.latencies.iter().find(|l| l.percentile == Percentile::P90).map_or(0, |l| l.micros);
        let tied = feasible().filter(|(_, row)| row.per_kilosecond as f64 >= 0.99 * most);
        let (name, row) = tied.min_by_key(|(_, row)| p90(row))?;
        Some((name.clone(), row.arm.clone(), row.level))
    }
}

/// What some campaigns over engines in one order spend, in pod-seconds, ascending. Then how many of their choices
/// have at least 0.97 of the best cell's throughput, and the number of their rows, on average.
fn campaigns(grid: &Grid, order: [&str; 2], seeds: u64) -> (Vec<f64>, usize, f64) {
    let all: Vec<Found> =
        (0..seeds).map(|seed| grid.campaign(order, &mut Pcg64Mcg::seed_from_u64(100 + seed))).collect();
    let mut spent: Vec<f64> = all.iter().map(Found::seconds).collect();
    spent.sort_by(f64::total_cmp);
    let ratio = |found: &Found| found.choice().map_or(0.0, |choice| grid.cells[&choice].per_second / grid.best());
    let good = all.iter().filter(|found| ratio(found) >= 0.97).count();
    let rows = all.iter().map(|found| found.rows().count()).sum::<usize>() as f64 / seeds as f64;
    (spent, good, rows)
}

/// The gate on a campaign's cost, with room: the machine of the real one disturbs it in more ways.
#[test]
fn a_search_over_both_engines_takes_less_than_a_quarter_of_brute_forces_pod_seconds() {
    for grid in Grid::all() {
        let brute = grid.brute_seconds(LAX_MICROS, 3);
        let (spent, ..) = campaigns(&grid, FEWER_BITS_FIRST, 10);
        println!("{}: {spent:.0?} of {brute:.0} s", grid.name);
        assert!(spent.iter().filter(|spent| **spent <= 0.25 * brute).count() >= 9, "{}: {spent:?}", grid.name);
        assert!(spent[5] <= 0.2 * brute, "{}: {spent:?}", grid.name);
    }
}

#[test]
#[ignore = "a table for people"]
fn what_campaigns_spend_on_the_recorded_grids() {
    const SEEDS: u64 = 20;
    for grid in Grid::all() {
        let (lax, limited) = (grid.brute_seconds(LAX_MICROS, 3), grid.brute_seconds(grid.limit_micros, 3));
        println!("{}: brute force {lax:.0} s, with the limit {limited:.0} s", grid.name);
        for (name, order) in [("fp32 first", FEWER_BITS_LAST), ("int8 first", FEWER_BITS_FIRST)] {
            let (spent, good, rows) = campaigns(&grid, order, SEEDS);
            let (median, most) = (spent[spent.len() / 2], spent[spent.len() - 1]);
            let quarter = spent.iter().filter(|spent| **spent <= lax / 4.0).count();
            println!(
                "| {name} | {median:.0} s ({:.0} to {most:.0}) | {:.1} % | {quarter} of {SEEDS} | {rows:.1} | {good} of {SEEDS} |",
                spent[0],
                100.0 * median / lax,
            );
        }
    }
}
