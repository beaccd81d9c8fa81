//! What the parts of a judge's memory look like, byte by byte. Pure.

use slipway_vocabulary::evidence::WINDOW_SECONDS;

use super::{
    StateError,
    codec::{Reader, Writer},
    codes,
};
use crate::judge::{
    absolute::{self, Absolute},
    at_percentile::{AtPercentile, Cluster, MAX_CLUSTERS},
    guard::Pace,
    hang::{self, Hang, MAX_COHORTS},
    non_inferior::{Blocks, NonInferior},
    pods::Pod,
    process::{MAX_ACTIVE, Mixture, RestartProduct, SequentialT, Start},
    strata::{LEVELS, Stratum},
};

impl RestartProduct {
    pub(in crate::judge) fn write(&self, writer: &mut Writer) {
        let Self { mixture: _, masses, started } = self;
        masses.iter().for_each(|mass| writer.f32(*mass));
        writer.u16(*started);
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>, mixture: &'static Mixture) -> Result<Self, StateError> {
        let masses = mixture.weights.iter().map(|_| reader.f32()).collect::<Result<_, _>>()?;
        Ok(Self { mixture, masses, started: reader.u16()? })
    }
}

impl SequentialT {
    pub(crate) fn write(&self, writer: &mut Writer) {
        let Self { blocks, sum, squares, started, starts, frozen } = self;
        writer.u16(*blocks);
        writer.f32(*sum);
        writer.f32(*squares);
        writer.u16(*started);
        writer.list(starts, |writer, Start { ordinal, blocks, sum, squares }| {
            writer.u16(*ordinal);
            writer.u16(*blocks);
            writer.f32(*sum);
            writer.f32(*squares);
        });
        frozen.iter().for_each(|mass| writer.f32(*mass));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            blocks: reader.u16()?,
            sum: reader.f32()?,
            squares: reader.f32()?,
            started: reader.u16()?,
            starts: reader.list(MAX_ACTIVE, |reader| {
                Ok(Start { ordinal: reader.u16()?, blocks: reader.u16()?, sum: reader.f32()?, squares: reader.f32()? })
            })?,
            frozen: [reader.f32()?, reader.f32()?],
        })
    }
}

impl Absolute {
    pub(in crate::judge) fn write(&self, writer: &mut Writer) {
        let Self { above_limit, fast, slow, block, hung } = self;
        above_limit.write(writer);
        fast.write(writer);
        slow.write(writer);
        block.iter().for_each(|sum| writer.f32(*sum));
        writer.u32(*hung);
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            above_limit: RestartProduct::read(reader, &absolute::MIXTURE)?,
            fast: RestartProduct::read(reader, &absolute::MIXTURE)?,
            slow: SequentialT::read(reader)?,
            block: [reader.f32()?, reader.f32()?],
            hung: reader.u32()?,
        })
    }
}

/// What version 2 kept of hanging units: for each arm starts, units in flight, old ones and pods, then a process.
pub(super) fn skip_hanging(reader: &mut Reader<'_>) -> Result<(), StateError> {
    for _ in 0..2 {
        reader.list(MAX_COHORTS, Reader::u16)?;
        reader.take::<12>()?;
    }
    RestartProduct::read(reader, &hang::MIXTURE).map(drop)
}

impl Hang {
    pub(in crate::judge) fn write(&self, writer: &mut Writer) {
        let Self { started, compared } = self;
        writer.list(started, |writer, of_arms| of_arms.iter().for_each(|units| writer.u16(*units)));
        writer.u8(*compared);
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let started = reader.list(MAX_COHORTS, |reader| Ok([reader.u16()?, reader.u16()?]))?;
        let compared = reader.u8()?;
        if usize::from(compared) > started.len() { Err(reader.damaged()) } else { Ok(Self { started, compared }) }
    }
}

impl Pace {
    pub(in crate::judge) fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let (excess, variance, units) = (reader.f32()?, reader.f32()?, reader.f32()?);
        let at_percentile = if reader.version == 2 { (0.0, 0.0) } else { (reader.f32()?, reader.f32()?) };
        let (excess_at, variance_at) = at_percentile;
        Ok(Self { excess, variance, excess_at, variance_at, units, windows: reader.u32()? })
    }
}

impl NonInferior {
    pub(in crate::judge) fn write(&self, writer: &mut Writer, has_objective: bool) {
        let Self { chains, at } = self;
        for Blocks { blocks, sum, squares, block } in chains {
            writer.u16(*blocks);
            [sum, squares, &block[0], &block[1]].into_iter().for_each(|sum| writer.f32(*sum));
        }
        let AtPercentile { excess, information, ln_bets, most_pods, pods } = at;
        [excess, information].into_iter().for_each(|sum| writer.f32(*sum));
        if has_objective {
            ln_bets.iter().for_each(|ln_bet| writer.f32(*ln_bet));
            most_pods.iter().for_each(|most| writer.u8(*most));
            writer.list(pods, |writer, Cluster { id, arm, excess, variance }| {
                writer.u8(codes::of_arm(*arm));
                writer.u16(*id);
                [excess, variance].into_iter().for_each(|sum| writer.f32(*sum));
            });
        }
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>, has_objective: bool) -> Result<Self, StateError> {
        let mut read = Self::default();
        for of in &mut read.chains {
            let (blocks, sum, squares) = (reader.u16()?, reader.f32()?, reader.f32()?);
            *of = Blocks { blocks, sum, squares, block: [reader.f32()?, reader.f32()?] };
        }
        (read.at.excess, read.at.information) = (reader.f32()?, reader.f32()?);
        if has_objective {
            for ln_bet in &mut read.at.ln_bets {
                *ln_bet = reader.f32()?;
            }
            read.at.most_pods = [reader.u8()?, reader.u8()?];
            read.at.pods = reader.list(MAX_CLUSTERS, |reader| {
                let (arm, id) = (codes::arm(reader.u8()?), reader.u16()?);
                Ok(Cluster { id, arm, excess: reader.f32()?, variance: reader.f32()? })
            })?;
        }
        Ok(read)
    }

    /// Up to version 3 the lanes of harm and of non-inferiority had the same blocks. At the percentile version 2 kept
    /// sums of which nobody can tell the blocks, and version 3 a sequential t.
    pub(in crate::judge) fn read_earlier(
        reader: &mut Reader<'_>,
        slow: &[SequentialT; 2],
        block: &[[f32; 2]; 2],
    ) -> Result<Self, StateError> {
        if reader.version == 2 {
            reader.take::<8>().map(drop)?
        } else {
            reader.take::<22>().map(drop)?
        }
        let of = |chain: usize| {
            let SequentialT { blocks, sum, squares, .. } = slow[chain];
            Blocks { blocks, sum, squares, block: block[chain] }
        };
        Ok(Self { chains: [of(0), of(1)], at: AtPercentile::default() })
    }
}

impl Stratum {
    pub(in crate::judge) fn write(&self, writer: &mut Writer) {
        let Self { id, units, fine } = self;
        writer.u32(*id);
        writer.u16(*units);
        fine.iter().for_each(|fine| writer.u16(*fine));
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut stratum = Self { id: reader.u32()?, units: reader.u16()?, fine: [0; LEVELS.len()] };
        for fine in &mut stratum.fine {
            *fine = reader.u16()?;
        }
        Ok(stratum)
    }
}

impl Pod {
    /// Times are kept as windows before `now`, which bounds a pod to 39 bytes.
    pub(in crate::judge) fn write(&self, writer: &mut Writer, now: u64) {
        let Self {
            id,
            name,
            arm,
            first_seconds,
            last_seconds,
            is_leaving,
            finished,
            failed,
            admitted,
            all_finished,
            all_failed,
            all_admitted,
            failing_windows,
        } = self;
        writer.u32(*id);
        writer.u8(codes::of_arm(*arm));
        for seconds in [first_seconds, last_seconds] {
            writer.u16((now.saturating_sub(*seconds) / WINDOW_SECONDS).min(u64::from(u16::MAX)) as u16);
        }
        writer.u32(*name);
        writer.u8(u8::from(*is_leaving));
        let counts = [finished, failed, admitted, all_finished, all_failed, all_admitted];
        counts.into_iter().for_each(|units| writer.f32(*units));
        writer.u8(*failing_windows);
    }

    pub(in crate::judge) fn read(reader: &mut Reader<'_>, now: u64) -> Result<Self, StateError> {
        let (id, arm) = (reader.u32()?, codes::arm(reader.u8()?));
        let first_seconds = now.saturating_sub(u64::from(reader.u16()?) * WINDOW_SECONDS);
        let last_seconds = now.saturating_sub(u64::from(reader.u16()?) * WINDOW_SECONDS);
        let pod = Self { last_seconds, ..Self::new(id, arm, first_seconds) };
        if reader.version == 2 {
            // Units in flight of three kinds: what a lost pod had of them was taken for errors.
            reader.take::<6>()?;
            return Ok(pod);
        }
        Ok(Self {
            name: reader.u32()?,
            is_leaving: reader.u8()? != 0,
            finished: reader.f32()?,
            failed: reader.f32()?,
            admitted: reader.f32()?,
            all_finished: reader.f32()?,
            all_failed: reader.f32()?,
            all_admitted: reader.f32()?,
            failing_windows: reader.u8()?,
            ..pod
        })
    }
}
