//! From evidence to a verdict: the rules of a rollout's steps. Pure.

use slipway_vocabulary::evidence::Metric;

use super::{
    config::OnInconclusive,
    guard::{Evidence, Shortfall},
    pods::{PodsFailing, is_served},
    rollout::{Judge, MIN_UNITS, PROMOTION_E_VALUE, SILENCE_SECONDS, ln_combined},
    verdict::{Judgement, Reason, Suspect, Verdict},
};

impl Judge {
    /// Judges the evidence as it stands, and follows an advance where no window tells the weight.
    pub(super) fn decide(&mut self) -> Judgement {
        let (verdict, reason) = self.verdict();
        let judgement = Judgement { end_seconds: self.last_seconds, step: self.step, verdict, reason };
        if verdict == Verdict::Advance && !self.is_weight_told {
            self.weight_percent = self.config.steps[self.step + 1].weight_percent;
            self.enter(self.step + 1, self.last_seconds);
        }
        judgement
    }

    fn verdict(&self) -> (Verdict, Reason) {
        if let Some(PodsFailing { failing, pods, seconds }) =
            self.pods.failing().filter(|_| !self.config.is_first_revision)
        {
            return (Verdict::Rollback, Reason::PodsFailing { failing, pods, seconds });
        }
        let evidence = self.evidence();
        let ln_e = ln_combined(&evidence);
        let ln_rollback = -self.config.alpha.ln();
        if ln_e >= ln_rollback
            && let Some(suspect) = suspect(&evidence)
        {
            return (Verdict::Rollback, Reason::HarmShown { suspect, ln_e, ln_rollback });
        }
        if let Some(reason) = self.silence() {
            return (Verdict::Hold, reason);
        }
        let step = &self.config.steps[self.step];
        let elapsed_seconds = self.last_seconds.saturating_sub(self.step_opened_seconds);
        if elapsed_seconds < step.min_soak_seconds {
            let min_seconds = step.min_soak_seconds;
            return (Verdict::Hold, Reason::Soaking { elapsed_seconds, min_seconds });
        }
        let Some(missing) = self.missing(&evidence, ln_e) else { return self.pass() };
        let max_seconds = step.max_soak_seconds;
        if elapsed_seconds < max_seconds {
            return (Verdict::Hold, missing);
        }
        let is_unproven = matches!(
            missing,
            Reason::TooFewUnits { .. } | Reason::TooFewUnitsAtPercentile { .. } | Reason::NotYetNonInferior { .. }
        );
        let verdict = match self.config.on_inconclusive {
            OnInconclusive::Pause => Verdict::Hold,
            OnInconclusive::Rollback => Verdict::Rollback,
            OnInconclusive::Promote if is_unproven => self.pass().0,
            OnInconclusive::Promote => Verdict::Hold,
        };
        (verdict, Reason::VerdictUnreachable { elapsed_seconds, max_seconds, missing: Box::new(missing) })
    }

    /// No data is neither success nor failure.
    fn silence(&self) -> Option<Reason> {
        let silent_seconds = self.last_seconds.saturating_sub(self.canary_reported_seconds);
        let idle_seconds = self.last_seconds.saturating_sub(self.canary_active_seconds);
        if silent_seconds >= SILENCE_SECONDS {
            return Some(Reason::EvidenceUnreachable { silent_seconds });
        }
        (idle_seconds >= SILENCE_SECONDS).then_some(Reason::NoTraffic { idle_seconds })
    }

    /// What keeps the step from being passed.
    fn missing(&self, evidence: &[Evidence], ln_e: f64) -> Option<Reason> {
        let finished = self.finished();
        if finished < MIN_UNITS {
            return Some(Reason::TooFewUnits { finished, needed: MIN_UNITS });
        }
        if ln_e >= PROMOTION_E_VALUE.ln()
            && let Some(suspect) = suspect(evidence)
        {
            return Some(Reason::HarmSuspected { suspect, ln_e, ln_rollback: -self.config.alpha.ln() });
        }
        if let Some(reason) = self.error_rate_exceeded() {
            return Some(reason);
        }
        if self.needs_non_inferiority() { self.not_yet_non_inferior() } else { None }
    }

    fn finished(&self) -> u64 {
        self.step_units.into_iter().max().unwrap_or(0)
    }

    fn error_rate_exceeded(&self) -> Option<Reason> {
        let limit = self.config.error_rate_max?;
        self.guards.iter().filter(|guard| guard.weight > 0.0).find_map(|guard| {
            let (rate, count) = guard.canary_error_rate()?;
            let metric = guard.key.metric;
            (rate > limit && u64::from(count) >= MIN_UNITS).then_some(Reason::ErrorRateExceeded { metric, rate, limit })
        })
    }

    /// Non-inferiority is needed where the comparison ends: at the last step with stable traffic.
    fn needs_non_inferiority(&self) -> bool {
        let is_compared = |step: usize| self.config.steps[step].weight_percent < 100.0;
        let next = self.step + 1;
        !self.config.is_first_revision
            && is_compared(self.step)
            && (next == self.config.steps.len() || !is_compared(next))
    }

    fn not_yet_non_inferior(&self) -> Option<Reason> {
        self.errors_within_pods()
            .or_else(|| self.too_few_at_percentile())
            .or_else(|| self.not_shown_non_inferior())
            .or_else(|| self.tasks_may_fail_more())
    }

    /// Where a margin is tolerated, clients must have said often enough that tasks do not fail more.
    fn tasks_may_fail_more(&self) -> Option<Reason> {
        let metric = Metric::TaskSuccess;
        self.config.tolerated_odds(metric)?;
        let guard = self.guards.iter().find(|guard| guard.key.metric == metric);
        let ln_e = guard.map_or(0.0, |guard| guard.not_more_failures.ln_e());
        let ln_needed = PROMOTION_E_VALUE.ln();
        (ln_e < ln_needed).then_some(Reason::NotYetNonInferior { metric, ln_e, ln_needed })
    }

    /// Counted by unit the canary fails more, and at least half of its errors came together on a pod. So few pods do
    /// not tell whether that is the pod or the revision.
    fn errors_within_pods(&self) -> Option<Reason> {
        let (failed, together) = self.pods.errors_of_canary();
        let served = self.guards.iter().filter(|guard| guard.weight > 0.0 && is_served(guard.key.metric));
        let most = served.map(|guard| (guard.key.metric, guard.ln_errors_by_unit())).max_by(|a, b| a.1.total_cmp(&b.1));
        let (metric, ln_e) = most?;
        let is_suspected = ln_e >= PROMOTION_E_VALUE.ln() && together * 2 >= failed && together > 0;
        is_suspected.then_some(Reason::ErrorsWithinPods { metric, together, failed })
    }

    /// Below so many units an equal canary would not be expected to pass either: one that passes has luck. Of several
    /// metrics the one with the smallest part of what it needs is named.
    fn too_few_at_percentile(&self) -> Option<Reason> {
        let part = |short: &Shortfall| short.needed.map_or(0.0, |needed| short.finished as f64 / needed as f64);
        let short = self.promotion_guards().filter_map(|guard| Some((guard, guard.shortfall_at_percentile()?)));
        let (guard, worst) = short.min_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))?;
        let Shortfall { finished, needed } = worst;
        let (metric, percentile) = (guard.key.metric, guard.percentile(&self.config));
        Some(Reason::TooFewUnitsAtPercentile { metric, percentile, finished, needed })
    }

    fn not_shown_non_inferior(&self) -> Option<Reason> {
        let ln_needed = PROMOTION_E_VALUE.ln();
        self.promotion_guards()
            .filter(|guard| guard.ln_non_inferior() < ln_needed || !guard.is_within_margin_at_percentile())
            .map(|guard| (guard.key.metric, guard.ln_non_inferior()))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(metric, ln_e)| Reason::NotYetNonInferior { metric, ln_e, ln_needed })
    }

    fn pass(&self) -> (Verdict, Reason) {
        if self.step + 1 < self.config.steps.len() {
            return (Verdict::Advance, Reason::StepPassed { finished: self.finished() });
        }
        let smallest = self.non_inferiority().map(|(_, ln_e)| ln_e).fold(f64::INFINITY, f64::min);
        (Verdict::Promote, Reason::NonInferior { ln_e: smallest })
    }
}

/// The largest contribution to the mean.
fn suspect(evidence: &[Evidence]) -> Option<Suspect> {
    let contribution = |evidence: &Evidence| evidence.weight.ln() + evidence.ln_e;
    let weighed = evidence.iter().filter(|evidence| evidence.weight > 0.0);
    let worst = weighed.max_by(|a, b| contribution(a).total_cmp(&contribution(b)))?;
    Some(Suspect { key: worst.key, harm: worst.harm })
}
