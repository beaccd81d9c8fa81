//! Memory of a device over time, in a bounded number of points. Pure.

/// Points kept; when time runs past them, neighbours join and keep their maximum.
const POINTS: usize = 128;

/// Bytes at one stretch of time: the maximum within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoint {
    /// Allocated by the program.
    pub allocated: u64,
    /// Held by the caching allocator; zero where the file does not state it.
    pub reserved: u64,
}

/// The timeline of one device.
#[derive(Clone, Debug, Default)]
pub struct MemoryTimeline {
    points: Vec<Option<MemoryPoint>>,
    from: i64,
    width: u64,
    level: i64,
    first: Option<MemoryPoint>,
    last: MemoryPoint,
    peak: MemoryPoint,
    reserved_at_peak: u64,
    lowest: i64,
}

impl MemoryTimeline {
    /// Adds a level as an allocator states it.
    pub fn level(&mut self, at: i64, allocated: u64, reserved: u64) {
        let point = MemoryPoint { allocated, reserved };
        if self.first.is_none() {
            (self.first, self.from, self.width) = (Some(point), at, 1_000);
        }
        self.last = point;
        if allocated > self.peak.allocated {
            self.reserved_at_peak = reserved;
        }
        self.peak = join(self.peak, point);
        let slot = self.slot(at);
        let kept = self.points[slot].get_or_insert(point);
        *kept = join(*kept, point);
    }

    /// Adds an allocation or a release; memory taken before the capture shows as a negative level, which is lifted.
    pub fn delta(&mut self, at: i64, bytes: i64) {
        self.level = self.level.saturating_add(bytes);
        self.lowest = self.lowest.min(self.level);
        self.level(at, self.level.max(0).unsigned_abs(), 0);
    }

    /// Says whether anything was recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the highest values.
    #[must_use]
    pub const fn peak(&self) -> MemoryPoint {
        self.peak
    }

    /// Returns the share of the reserved memory that was not allocated at the peak of allocation: fragmentation and
    /// cache.
    #[must_use]
    pub fn unused_share_at_peak(&self) -> Option<f64> {
        let reserved = self.reserved_at_peak;
        (reserved > 0).then(|| 1.0 - self.peak.allocated.min(reserved) as f64 / reserved as f64)
    }

    /// Returns how much more was allocated at the end than at the start, in bytes; growth over a loop is a leak.
    #[must_use]
    pub fn growth(&self) -> i64 {
        self.first.map_or(0, |first| self.last.allocated.cast_signed().saturating_sub(first.allocated.cast_signed()))
    }

    /// Returns the bytes that were released without having been seen allocated: what the program held before the
    /// capture.
    #[must_use]
    pub const fn held_before(&self) -> u64 {
        self.lowest.unsigned_abs()
    }

    /// Returns the points with their start in nanoseconds on the capture's clock.
    pub fn points(&self) -> impl Iterator<Item = (i64, MemoryPoint)> + '_ {
        self.points.iter().enumerate().filter_map(|(slot, point)| {
            let start = self.from + (slot as u64 * self.width).cast_signed();
            point.map(|point| (start, point))
        })
    }

    fn slot(&mut self, at: i64) -> usize {
        let elapsed = at.saturating_sub(self.from).max(0).unsigned_abs();
        while elapsed / self.width >= POINTS as u64 {
            self.width *= 2;
            let halved = self.points.chunks(2).map(|pair| pair.iter().flatten().copied().reduce(join));
            self.points = halved.collect();
        }
        let slot = (elapsed / self.width) as usize;
        if self.points.len() <= slot {
            self.points.resize(slot + 1, None);
        }
        slot
    }
}

fn join(a: MemoryPoint, b: MemoryPoint) -> MemoryPoint {
    MemoryPoint { allocated: a.allocated.max(b.allocated), reserved: a.reserved.max(b.reserved) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_long_timeline_keeps_its_peak_in_few_points() {
        let mut timeline = MemoryTimeline::default();
        for step in 0..100_000i64 {
            timeline.level(step * 1_000_000, 1_000 + u64::from(step == 77_777) * 5_000, 10_000);
        }

        let points: Vec<_> = timeline.points().collect();
        assert!(points.len() <= POINTS, "{}", points.len());
        assert_eq!(points.iter().map(|(_, point)| point.allocated).max(), Some(6_000));
        assert_eq!(timeline.peak(), MemoryPoint { allocated: 6_000, reserved: 10_000 });
        assert_eq!(timeline.unused_share_at_peak(), Some(0.4));
        assert_eq!(timeline.growth(), 0);
    }

    #[test]
    fn deltas_add_up_and_growth_shows_a_leak() {
        let mut timeline = MemoryTimeline::default();
        timeline.delta(0, 100);
        timeline.delta(10, 300);
        timeline.delta(20, -300);
        timeline.delta(30, 50);

        assert_eq!(timeline.peak().allocated, 400);
        assert_eq!(timeline.growth(), 50);
        assert_eq!(timeline.unused_share_at_peak(), None);
        assert_eq!(timeline.held_before(), 0);
    }

    #[test]
    fn what_was_held_before_the_capture_is_stated() {
        let mut timeline = MemoryTimeline::default();
        timeline.delta(0, -700);

        assert_eq!((timeline.held_before(), timeline.peak().allocated), (700, 0));
    }
}
