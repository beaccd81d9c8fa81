//! Decides between chunks whether a level continues: the analysis' sequential tests over its requests. Pure.

use std::time::Duration;

use slipway_analysis::{
    early::{EarlyRule, EarlyVerdict, EarlyWatch, IncumbentTest},
    slo::{self, SampleVerdict},
};
use slipway_worker_contract::{LatencyMetric, LatencyObjective, OptimizeFor, Percentile};

use super::{records::Request, search::ToBeat};

/// Gives the number of requests that a level needs to end as shown. The strictest objective's percentile must have a
/// bound (p95 needs 59, p99 299, p99.9 2,995).
fn least_requests(objectives: &[LatencyObjective]) -> u64 {
    let needed = |objective: &LatencyObjective| match objective.percentile {
        Percentile::P50 | Percentile::P90 | Percentile::P95 => 180,
        Percentile::P99 => 299,
        Percentile::P99_9 => 2_995,
    };
    // Without objectives the percentiles' own bounds are all there is to wait for.
    objectives.iter().map(needed).max().unwrap_or(299)
}

/// Rounds of all that is in flight before a level may be given up: fewer say nothing about stalls, which hold a whole
/// round.
const LEAST_ROUNDS: u64 = 4;

/// The standard error of ln throughput that is small enough, where throughput or cost is optimized for.
const THROUGHPUT_ERROR: f64 = 0.03;
/// Standard errors by which a level's throughput is below a rival's before it is given up. It is looked at after each
/// of some seven chunks, and then has ten batches or more. So a level as good as the rival is given up in less than 5
/// of 100 cases.
const ERRORS_TO_GIVE_UP: f64 = 3.0;
/// How long a level runs for its throughput's sake alone, its warm-up not counted. Every start of an engine costs
/// more.
const THROUGHPUT_PATIENCE: Duration = Duration::from_secs(10);

/// Whether another chunk is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is shown yet.
    GoOn,
    /// The level is over, and why.
    Stop(String),
}

/// The evidence of one level.
#[derive(Clone, Debug)]
pub struct Watch {
    objectives: Vec<LatencyObjective>,
    evidence: EarlyWatch,
    /// Of each objective, in order: whether a request was above its limit.
    exceeding: Vec<Vec<bool>>,
    level: u32,
    rival: Option<(IncumbentTest, ToBeat)>,
    own: LatencyMetric,
    seen: u64,
    /// When requests were sent, in nanoseconds, by the uninterrupted part that they belong to.
    sent: Vec<Vec<u64>>,
    wants_throughput: bool,
    is_repeat: bool,
}

impl Watch {
    /// Watches a level of so many requests in flight against its objectives, where a request's time from sending to
    /// answer is `own`.
    pub fn new(objectives: &[LatencyObjective], own: LatencyMetric, level: u32) -> Self {
        let quantiles: Vec<_> = objectives.iter().map(|o| o.percentile.into()).collect();
        let evidence = EarlyWatch::new(EarlyRule::default(), &quantiles);
        let exceeding = vec![Vec::new(); objectives.len()];
        let (sent, wants_throughput) = (vec![Vec::new()], false);
        let (objectives, is_repeat) = (objectives.to_vec(), false);
        Self { objectives, evidence, exceeding, level, rival: None, own, seen: 0, sent, wants_throughput, is_repeat }
    }

    /// Also goes on for a throughput that can be compared, if that is what the campaign is after.
    #[must_use]
    pub fn for_the_sake_of(self, optimize_for: OptimizeFor) -> Self {
        let wants_throughput = match optimize_for {
            OptimizeFor::Throughput | OptimizeFor::Cost => true,
            OptimizeFor::Latency => false,
        };
        Self { wants_throughput, ..self }
    }

    /// Also ends a level that is measured again once its throughput can be compared, if that is what the campaign is
    /// after. An earlier measurement has shown that it meets the objectives.
    #[must_use]
    pub fn repeated(self, is_repeat: bool) -> Self {
        Self { is_repeat, ..self }
    }

    /// Also ends the level once it is shown not to reach a throughput.
    #[must_use]
    pub fn against(self, to_beat: Option<&ToBeat>) -> Self {
        let level = f64::from(self.level);
        let rival = to_beat
            .filter(|rival| rival.per_kilosecond > 0)
            .map(|rival| (IncumbentTest::new(level, rival.per_kilosecond as f64 / 1e3, 1.0), rival.clone()));
        Self { rival, ..self }
    }

    /// What is added next was sent apart from what was added before.
    pub fn begin_part(&mut self) {
        self.sent.push(Vec::new());
    }

    /// Adds requests of the current part.
    pub fn observe(&mut self, requests: &[Request]) {
        self.seen += requests.len() as u64;
        self.sent.last_mut().into_iter().for_each(|part| part.extend(requests.iter().map(|request| request.sent)));
        for (position, objective) in self.objectives.iter().enumerate() {
            let limit = objective.max_microseconds as f64;
            let values = requests.iter().filter_map(|r| r.micros(objective.metric, self.own));
            let flags: Vec<bool> = values.map(|micros| micros > limit).collect();
            let exceeding = flags.iter().filter(|exceeds| **exceeds).count() as u64;
            self.evidence.observe(position, exceeding, flags.len() as u64 - exceeding);
            self.exceeding[position].extend(flags);
        }
        if let Some((test, _)) = &mut self.rival {
            requests.iter().for_each(|request| test.observe(request.latency_micros() / 1e6, 1.0));
        }
    }

    /// Decides on what was added so far, the level having run for `elapsed`; valid at every look, because the tests
    /// are sequential.
    pub fn decide(&self, elapsed: Duration) -> Decision {
        let verdict = self.evidence.verdict();
        if matches!(verdict, EarlyVerdict::Infeasible { .. }) && self.is_missed() {
            // Which objective is missed, and by how much, is the row's verdict to say.
            return Decision::Stop("stopped early".to_owned());
        }
        if self.seen < least_requests(&self.objectives) {
            return Decision::GoOn;
        }
        let beaten = |test: &IncumbentTest| test.log_evidence() >= -EarlyRule::default().alpha.ln();
        match &self.rival {
            Some((test, rival)) if beaten(test) || self.is_slower_than(rival) => {
                let rate = rival.per_kilosecond as f64 / 1e3;
                return Decision::Stop(format!("stopped early: it cannot reach the {rate:.2}/s of {}", rival.of));
            }
            Some(_) | None => {}
        }
        let is_shown = self.objectives.is_empty() || verdict == EarlyVerdict::Feasible;
        let is_comparable = || elapsed >= THROUGHPUT_PATIENCE || self.knows_throughput();
        if is_shown && (!self.wants_throughput || is_comparable()) {
            return Decision::Stop(format!("shown by {} requests", self.seen));
        }
        if self.is_repeat && self.wants_throughput && is_comparable() {
            return Decision::Stop(format!("compared by {} requests", self.seen));
        }
        Decision::GoOn
    }

    /// Whether the throughput itself is too far below a rival's. Latencies alone show less, because what the client
    /// does between two requests is a part of a round too.
    fn is_slower_than(&self, rival: &ToBeat) -> bool {
        let sent = self.sent_in_order();
        let parts = sent.iter().filter_map(|part| Some((part.len(), part.last()?.saturating_sub(*part.first()?))));
        let (requests, nanos) = parts.fold((0, 0), |(requests, nanos), (len, span)| (requests + len - 1, nanos + span));
        let Some(error) = self.shown_error(&sent).filter(|_| nanos > 0) else { return false };
        let rate = requests as f64 * 1e9 / nanos as f64;
        rate.ln() + ERRORS_TO_GIVE_UP * error < (rival.per_kilosecond as f64 / 1e3).ln()
    }

    /// Whether the throughput is known well enough to be compared.
    fn knows_throughput(&self) -> bool {
        let shown = self.shown_error(&self.sent_in_order());
        slo::throughput_log_error(shown, self.seen, None) <= THROUGHPUT_ERROR
    }

    /// Runs are added as they end.
    fn sent_in_order(&self) -> Vec<Vec<u64>> {
        let mut sent = self.sent.clone();
        sent.iter_mut().for_each(|part| part.sort_unstable());
        sent
    }

    fn shown_error(&self, sent: &[Vec<u64>]) -> Option<f64> {
        slo::throughput_error_by_batches(sent.iter().map(Vec::as_slice), self.level as usize)
    }

    /// Whether some objective is missed although requests that were in flight together count as one where they are
    /// slow together. The level's row is judged by the same rule.
    fn is_missed(&self) -> bool {
        let missed = |(objective, exceeding): (&LatencyObjective, &Vec<bool>)| {
            let groups = slo::groups(exceeding.iter().copied(), self.level);
            let verdict = slo::judge_groups(&groups, objective.percentile.into(), slo::CONFIDENCE);
            verdict == SampleVerdict::Infeasible
        };
        self.seen >= LEAST_ROUNDS * u64::from(self.level) && self.objectives.iter().zip(&self.exceeding).any(missed)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    fn fast(percentile: Percentile, max_microseconds: u64) -> LatencyObjective {
        LatencyObjective { name: "fast".into(), metric: LatencyMetric::RequestLatency, percentile, max_microseconds }
    }

    fn requests(count: u64, slow: u64) -> Vec<Request> {
        (0..count).map(|i| Request::new(0, if i < slow { 200_000_000 } else { 50_000_000 })).collect()
    }

    fn decision(percentile: Percentile, chunks: &[(u64, u64)]) -> Decision {
        let objective = fast(percentile, 100_000);
        let mut watch = Watch::new(&[objective], LatencyMetric::RequestLatency, 1);
        chunks.iter().for_each(|(count, slow)| watch.observe(&requests(*count, *slow)));
        watch.decide(Duration::ZERO)
    }

    #[test]
    fn a_hopeless_level_ends_after_its_first_chunk() {
        assert_eq!(decision(Percentile::P95, &[(60, 30)]), Decision::Stop("stopped early".to_owned()));
    }

    #[test]
    fn a_stall_of_all_that_is_in_flight_does_not_end_a_level() {
        let objective = fast(Percentile::P95, 100_000);
        let mut watch = Watch::new(&[objective], LatencyMetric::RequestLatency, 32);
        watch.observe(&requests(92, 64));
        assert_eq!(watch.decide(Duration::ZERO), Decision::GoOn, "fewer than four rounds");
        watch.observe(&requests(128, 0));
        assert_eq!(watch.decide(Duration::ZERO), Decision::GoOn, "two rounds of seven");
        watch.observe(&requests(128, 128));
        watch.observe(&requests(128, 128));
        watch.observe(&requests(256, 256));
        assert_eq!(watch.decide(Duration::ZERO), Decision::Stop("stopped early".to_owned()));
    }

    #[test]
    fn a_level_at_its_limit_goes_on_and_a_clear_one_ends() {
        let shown = |requests| Decision::Stop(format!("shown by {requests} requests"));
        assert_eq!(decision(Percentile::P95, &[(60, 3)]), Decision::GoOn);
        assert_eq!(decision(Percentile::P95, &[(60, 0), (120, 0)]), Decision::GoOn, "requests of a batch count less");
        assert_eq!(decision(Percentile::P95, &[(60, 0), (120, 0), (240, 0)]), shown(420));
        assert_eq!(decision(Percentile::P50, &[(60, 0)]), Decision::GoOn, "too few for a throughput");
        assert_eq!(decision(Percentile::P50, &[(60, 0), (120, 0)]), shown(180));
    }

    #[test]
    fn without_objectives_a_level_ends_once_its_percentiles_have_bounds() {
        let mut watch = Watch::new(&[], LatencyMetric::RequestLatency, 4);
        watch.observe(&requests(298, 0));
        assert_eq!(watch.decide(Duration::ZERO), Decision::GoOn);
        watch.observe(&requests(1, 0));
        assert_eq!(watch.decide(Duration::ZERO), Decision::Stop("shown by 299 requests".into()));
    }

    #[test]
    fn a_level_that_cannot_reach_the_best_throughput_ends_once_its_percentiles_have_bounds() {
        let decision = |per_kilosecond, count| {
            let rival = ToBeat { per_kilosecond, of: "i2 at 8".into() };
            // Four in flight of 50 ms each are 80 a second.
            let limit = fast(Percentile::P99, 100_000);
            let mut watch = Watch::new(&[limit], LatencyMetric::RequestLatency, 4).against(Some(&rival));
            watch.observe(&requests(count, 0));
            watch.decide(Duration::ZERO)
        };
        let reason = "stopped early: it cannot reach the 160.00/s of i2 at 8".to_owned();
        assert_eq!(decision(160_000, 300), Decision::Stop(reason));
        assert_eq!(decision(160_000, 298), Decision::GoOn);
        assert_eq!(decision(80_000, 300), Decision::GoOn);
    }

    /// A loop of four whose rounds take 40 ms, each shorter or longer by `unrest` of that.
    fn rounds(count: u64, unrest: f64) -> Vec<Request> {
        let (mut now, mut requests) = (0, Vec::new());
        for round in 0..count {
            // Some like numbers, without a pattern that batches would even out.
            let lot = (round * 2_654_435_761 % 1_000) as f64 / 500.0 - 1.0;
            let length = (40e6 * (1.0 + unrest * lot)) as u64;
            requests.extend((0..4).map(|k| Request::new(now + k * length / 4, now + (k + 4) * length / 4)));
            now += length;
        }
        requests
    }

    #[test]
    fn a_shown_level_goes_on_until_its_throughput_can_be_compared_or_ten_seconds_have_passed() {
        let watch = |rounds: &[Request], optimize_for| {
            let mut watch = Watch::new(&[], LatencyMetric::RequestLatency, 4).for_the_sake_of(optimize_for);
            watch.observe(rounds);
            watch
        };
        let shown = |requests| Decision::Stop(format!("shown by {requests} requests"));
        let (even, uneven) = (rounds(100, 0.05), rounds(100, 0.9));
        for optimize_for in [OptimizeFor::Throughput, OptimizeFor::Cost] {
            assert_eq!(watch(&even, optimize_for).decide(Duration::from_secs(4)), shown(400));
            assert_eq!(watch(&uneven, optimize_for).decide(Duration::from_secs(4)), Decision::GoOn);
            assert_eq!(watch(&uneven, optimize_for).decide(Duration::from_secs(10)), shown(400));
        }
        assert_eq!(watch(&uneven, OptimizeFor::Latency).decide(Duration::from_secs(4)), shown(400));
        assert_eq!(watch(&rounds(900, 0.9), OptimizeFor::Throughput).decide(Duration::from_secs(4)), shown(3600));
    }

    #[test]
    fn a_level_that_is_measured_again_ends_with_a_throughput_to_compare_though_its_limit_is_near() {
        let decision = |is_repeat, optimize_for| {
            let limit = fast(Percentile::P90, 42_000);
            let mut watch = Watch::new(&[limit], LatencyMetric::RequestLatency, 4).for_the_sake_of(optimize_for);
            watch = watch.repeated(is_repeat);
            watch.observe(&rounds(100, 0.06));
            watch.decide(Duration::from_secs(4))
        };
        assert_eq!(decision(false, OptimizeFor::Throughput), Decision::GoOn);
        assert_eq!(decision(true, OptimizeFor::Latency), Decision::GoOn, "its latency is what is compared");
        let compared = Decision::Stop("compared by 400 requests".to_owned());
        assert_eq!(decision(true, OptimizeFor::Throughput), compared);
        assert_eq!(decision(true, OptimizeFor::Cost), compared);
    }

    /// Clients that need a fifth of each round for themselves: of four in flight with 40 ms a request, 80 a second
    /// come back in place of 100.
    fn with_a_slow_client(seed: u64, count: usize) -> Vec<Request> {
        let mut rng = rand_pcg::Pcg64Mcg::new(u128::from(seed));
        let mut free = [0.0_f64; 4];
        let one = |_| {
            let slot = (0..4).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or_default();
            let (sent, latency) = (free[slot], 80e6 * rng.random::<f64>());
            free[slot] = sent + latency + 10e6;
            Request::new(sent as u64, (sent + latency) as u64)
        };
        let mut requests: Vec<Request> = (0..count).map(one).collect();
        requests.sort();
        requests
    }

    /// Whether a level at its limit, which no chunk shows to meet or to miss it, is given up.
    fn against(per_kilosecond: u64, seed: u64) -> bool {
        let rival = ToBeat { per_kilosecond, of: "i2 at 8".into() };
        let limit = fast(Percentile::P90, 72_000);
        let mut watch = Watch::new(&[limit], LatencyMetric::RequestLatency, 4).against(Some(&rival));
        let reason = "stopped early: it cannot reach";
        [60, 120, 240, 480, 960, 1_920].into_iter().zip(0..).any(|(count, part)| {
            watch.begin_part();
            watch.observe(&with_a_slow_client(10 * seed + part, count));
            matches!(watch.decide(Duration::ZERO), Decision::Stop(words) if words.starts_with(reason))
        })
    }

    #[test]
    fn a_level_whose_throughput_is_too_low_is_given_up_though_its_latencies_do_not_show_it() {
        let given_up = |per_kilosecond| (0..100).filter(|seed| against(per_kilosecond, *seed)).count();
        // By its latencies alone it would reach 100 a second.
        let (worse, equal) = (given_up(92_000), given_up(80_000));
        assert!(worse >= 95 && equal <= 5, "{worse} and {equal} of 100");
    }

    #[test]
    fn a_pause_between_two_parts_does_not_blur_the_throughput() {
        let later =
            rounds(60, 0.05).into_iter().map(|r| Request::new(r.sent + 9_000_000_000, r.answered + 9_000_000_000));
        let mut watch = Watch::new(&[], LatencyMetric::RequestLatency, 4).for_the_sake_of(OptimizeFor::Throughput);
        watch.observe(&rounds(60, 0.05));
        watch.begin_part();
        watch.observe(&later.collect::<Vec<_>>());
        assert_eq!(watch.decide(Duration::ZERO), Decision::Stop("shown by 480 requests".to_owned()));
    }
}
