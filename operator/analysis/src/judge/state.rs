//! The judge's memory as a string: opaque, versioned, at most 12 KiB. Pure.
//!
//! Every stored number is a fixed-width integer or an `f32` that the judge itself computes with. So a judge that
//! resumes from any prefix gives the same bits as one that never stopped. The string is `4:` and the bytes in Z85
//! (ZeroMQ RFC 32: five printable characters for four bytes, none of which JSON or YAML has to escape). States of
//! versions 2 and 3 are read. What they say of the objective's percentile is left behind, and what version 2 says of
//! hanging units too, because it did not hold: a promotion collects that evidence again.

pub(crate) mod codec;
pub(crate) mod codes;
pub(crate) mod fingerprint;
mod parts;

use slipway_vocabulary::evidence::Metric;
use thiserror::Error;

use self::{
    codec::{Reader, Writer},
    parts::skip_hanging,
};
use super::{
    absolute::Absolute,
    config::Config,
    guard::{ERROR_MIXTURE, Guard, Pace, Totals},
    hang::{self, Hang},
    load::Load,
    non_inferior::NonInferior,
    observation::Key,
    pods::{MAX_PODS, Pod, Pods},
    process::{RestartProduct, SequentialT},
    role::Role,
    rollout::Judge,
    sessions::{self, Sessions},
    split,
    strata::{MAX_STRATA, Strata, Stratum},
    tasks::NotMoreFailures,
};

/// The largest state in bytes: what fits a status field.
pub const MAX_STATE_BYTES: usize = 12 * 1024;

/// Version of the states that are written.
const VERSION: u8 = 4;

/// Versions of the states that are read.
const READ: codec::Versions = codec::Versions { known: &[2, 3, VERSION], words: "\"2\", \"3\" or \"4\"" };

/// Why a stored state is refused. A refused state means a new judge: evidence is lost, the rollout goes on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StateError {
    /// The state is of another version.
    #[error("stored state has version {found:?}, this program reads version {known}")]
    Version {
        /// What stands before the colon.
        found: String,
        /// What is read.
        known: &'static str,
    },
    /// The state has been cut or changed.
    #[error("stored state is damaged at byte {offset}")]
    Damaged {
        /// Where reading failed.
        offset: usize,
    },
    /// The state belongs to another configuration, or to the drift of another baseline.
    #[error("stored state belongs to another configuration or baseline")]
    Configuration,
}

impl Judge {
    /// Writes the judge's memory.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut writer = Writer::default();
        self.write(&mut writer);
        codec::seal(VERSION, writer.bytes)
    }

    /// Resumes from a memory that [`encode`](Self::encode) wrote under the same configuration.
    ///
    /// # Errors
    /// [`StateError`] when the text is of another version, damaged, or of another configuration.
    pub fn resume(config: Config, text: &str) -> Result<Self, StateError> {
        let (version, body) = codec::open(text, &READ)?;
        let mut reader = Reader { bytes: &body, offset: 0, version };
        if reader.u32()? != fingerprint::of_config(&config) {
            return Err(StateError::Configuration);
        }
        let judge = Self::read(config, &mut reader)?;
        if body.len() - reader.offset < 4 { Ok(judge) } else { Err(reader.damaged()) }
    }

    fn write(&self, writer: &mut Writer) {
        // Without `..`, so that a new field cannot be forgotten here.
        let Self {
            config,
            opened_seconds,
            last_seconds,
            step,
            step_opened_seconds,
            weight_percent,
            is_weight_told,
            step_units,
            canary_reported_seconds,
            canary_active_seconds,
            left_share,
            guards,
            pods,
            load,
            sessions,
            decided,
        } = self;
        writer.u32(fingerprint::of_config(config));
        writer.u64(opened_seconds.map_or(0, |seconds| seconds + 1));
        for seconds in [last_seconds, step_opened_seconds, canary_reported_seconds, canary_active_seconds] {
            writer.u64(*seconds);
        }
        writer.u8(*step as u8);
        writer.u64(weight_percent.to_bits());
        writer.u8(u8::from(*is_weight_told));
        step_units.iter().for_each(|units| writer.u64(*units));
        writer.f32(*left_share);
        load.started.iter().chain(&load.pods).for_each(|sum| writer.f32(*sum));
        sessions.process.write(writer);
        writer.u8(codes::of_decided(decided.map(|(verdict, _)| verdict)));
        writer.u64(decided.map_or(0, |(_, seconds)| seconds));
        writer.list(&pods.known, |writer, pod| pod.write(writer, *last_seconds));
        writer.list(guards, |writer, guard| guard.write(config, writer));
    }

    fn read(config: Config, reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let opened_seconds = reader.u64()?.checked_sub(1);
        let last_seconds = reader.u64()?;
        let step_opened_seconds = reader.u64()?;
        let canary_reported_seconds = reader.u64()?;
        let canary_active_seconds = reader.u64()?;
        let step = usize::from(reader.u8()?);
        if step >= config.steps.len() {
            return Err(reader.damaged());
        }
        Ok(Self {
            opened_seconds,
            last_seconds,
            step,
            step_opened_seconds,
            weight_percent: f64::from_bits(reader.u64()?),
            is_weight_told: reader.u8()? != 0,
            step_units: [reader.u64()?, reader.u64()?, reader.u64()?],
            canary_reported_seconds,
            canary_active_seconds,
            left_share: reader.f32()?,
            load: Load { started: [reader.f32()?, reader.f32()?], pods: [reader.f32()?, reader.f32()?] },
            sessions: Sessions { process: RestartProduct::read(reader, &sessions::MIXTURE)? },
            decided: {
                let (verdict, seconds) = (codes::decided(reader.u8()?), reader.u64()?);
                verdict.map(|verdict| (verdict, seconds))
            },
            pods: Pods { known: reader.list(MAX_PODS, |reader| Pod::read(reader, last_seconds))? },
            guards: reader.list(u8::MAX.into(), |reader| Guard::read(&config, reader))?,
            config,
        })
    }
}

/// Whether a guard looks at values beside errors.
fn has_values(metric: Metric, config: &Config) -> bool {
    config.role(metric) != Some(Role::Errors)
}

/// Whether a promotion needs a guard's non-inferiority.
fn is_guard(metric: Metric, config: &Config) -> bool {
    config.role(metric) == Some(Role::Guard)
}

impl Guard {
    fn write(&self, config: &Config, writer: &mut Writer) {
        let Self {
            key,
            weight,
            strata,
            fast,
            slow,
            block,
            errors,
            errors_above_limit,
            hang,
            hanging,
            absolutes,
            canary,
            stable,
            non_inferior,
            not_more_failures,
            pace,
        } = self;
        writer.u8(codes::of_metric(key.metric));
        writer.u8(codes::of_unit(key.unit));
        writer.f32(*weight);
        errors.write(writer);
        if config.is_first_revision {
            errors_above_limit.write(writer);
        }
        for totals in [canary, stable] {
            writer.u32(totals.count);
            writer.u32(totals.errors);
        }
        if config.tolerated_odds(key.metric).is_some() {
            not_more_failures.odds.iter().chain([&not_more_failures.rare]).for_each(|mass| writer.f32(*mass));
        }
        if !has_values(key.metric, config) {
            return;
        }
        writer.list(&strata.known, |writer, stratum| stratum.write(writer));
        fast.write(writer);
        slow.iter().for_each(|slow| slow.write(writer));
        block.iter().flatten().for_each(|sum| writer.f32(*sum));
        if hang::has_cohorts(*key) {
            hang.write(writer);
            hanging.write(writer);
        }
        writer.list(absolutes, |writer, absolute| absolute.write(writer));
        if is_guard(key.metric, config) {
            non_inferior.write(writer, !absolutes.is_empty());
        }
        let Pace { excess, variance, excess_at, variance_at, units, windows } = pace;
        [excess, variance, units, excess_at, variance_at].into_iter().for_each(|sum| writer.f32(*sum));
        writer.u32(*windows);
    }

    fn read(config: &Config, reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let metric = codes::metric(reader.u8()?).ok_or_else(|| reader.damaged())?;
        let unit = codes::unit(reader.u8()?).ok_or_else(|| reader.damaged())?;
        let mut guard = Self::new(Key { metric, unit }, reader.f32()?, config);
        guard.errors = RestartProduct::read(reader, &ERROR_MIXTURE)?;
        if config.is_first_revision {
            guard.errors_above_limit = RestartProduct::read(reader, &ERROR_MIXTURE)?;
        }
        for totals in [&mut guard.canary, &mut guard.stable] {
            *totals = Totals { count: reader.u32()?, errors: reader.u32()? };
        }
        if config.tolerated_odds(metric).is_some() {
            let NotMoreFailures { odds, rare } = &mut guard.not_more_failures;
            for mass in odds.iter_mut().chain([rare]) {
                *mass = reader.f32()?;
            }
        }
        if has_values(metric, config) {
            guard.read_values(config, reader)?;
        }
        Ok(guard)
    }

    fn read_values(&mut self, config: &Config, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let metric = self.key.metric;
        let objectives = config.objectives.iter().filter(|objective| objective.metric == metric).count();
        self.strata = Strata { known: reader.list(MAX_STRATA, Stratum::read)? };
        self.fast = RestartProduct::read(reader, &split::MIXTURE)?;
        self.slow = [SequentialT::read(reader)?, SequentialT::read(reader)?];
        self.block = [[reader.f32()?, reader.f32()?], [reader.f32()?, reader.f32()?]];
        if reader.version == 2 {
            skip_hanging(reader)?;
        } else if hang::has_cohorts(self.key) {
            self.hang = Hang::read(reader)?;
            self.hanging = RestartProduct::read(reader, &hang::MIXTURE)?;
        }
        self.absolutes = reader.list(objectives, Absolute::read)?;
        self.non_inferior = match reader.version {
            2 | 3 => NonInferior::read_earlier(reader, &self.slow, &self.block)?,
            _ if is_guard(metric, config) => NonInferior::read(reader, objectives > 0)?,
            _ => NonInferior::default(),
        };
        self.pace = Pace::read(reader)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
