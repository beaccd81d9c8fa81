//! Which cell is best by the rule of the product, and what two cells' measurements say of each other. Pure.
//!
//! The rule is that of `operator/selection`: a cell meets the limit by its bound, the greatest throughput wins, and of
//! those within 1 % the one with the lowest latency. Cells too close to tell apart are measured again.

use serde::{Deserialize, Serialize};
use slipway_crds::v1alpha1::profile::{MeasurementPurpose, MeasurementVerdict};

use super::grid::Cell;

/// Throughputs that differ by a smaller share are told apart by latency.
const TIE: f64 = 0.01;
/// Cells whose throughput is lower by a greater share do not contend after one measurement.
const CLOSE: f64 = 0.1;
/// Contenders of brute force that are measured again.
const MOST_CONTENDERS: usize = 4;
/// 97.5 % points of Student's distribution with 1, 2, 3 ... degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same with more.
const NORMAL: f64 = 1.96;

/// A row of a campaign, without what nobody looks at here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub cell: Cell,
    pub purpose: MeasurementPurpose,
    /// By the limit of its own campaign.
    pub verdict: MeasurementVerdict,
    pub count: i32,
    pub milliseconds: i64,
    pub per_kilosecond: i64,
    /// Absent of a row too short to show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_kilosecond_error: Option<i64>,
    /// The percentile that has a limit.
    pub latency: Option<Latency>,
    /// Time of the measurement itself, without the start of its pod.
    pub gpu_milliseconds: i64,
}

/// A percentile with its bounds, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub microseconds: i64,
    pub lower: i64,
    pub upper: Option<i64>,
}

impl Row {
    /// The verdict by another limit, as the product reads rows of earlier campaigns.
    pub fn judged(&self, limit: i64) -> MeasurementVerdict {
        match (self.verdict, self.latency) {
            (MeasurementVerdict::Failed, _) => MeasurementVerdict::Failed,
            (_, Some(latency)) if latency.lower > limit => MeasurementVerdict::Infeasible,
            (_, Some(Latency { upper: Some(upper), .. })) if upper <= limit => MeasurementVerdict::Feasible,
            (_, _) => MeasurementVerdict::Unbounded,
        }
    }

    fn micros(&self) -> i64 {
        self.latency.map_or(i64::MAX, |latency| latency.microseconds)
    }
}

/// A limit that some cells miss and others meet, in whole milliseconds: in the middle of the widest gap between
/// neighbours among the middle half of the latencies. There the fewest rows are undecided.
pub fn limit_of(rows: &[&Row]) -> Option<i64> {
    let mut latencies: Vec<i64> = rows.iter().filter_map(|row| Some(row.latency?.microseconds)).collect();
    latencies.sort_unstable();
    let count = latencies.len();
    let middle = count / 4..(3 * count / 4).min(count.checked_sub(1)?);
    let pairs = middle.map(|at| (latencies[at].max(1) as f64, latencies[at + 1].max(1) as f64));
    let (below, above) = pairs.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    Some((((below * above).sqrt() / 1e3).round() as i64).max(1) * 1_000)
}

/// The best of rows that meet the limit, of equal ones the first.
pub fn best<'a>(met: &[&'a Row]) -> Option<&'a Row> {
    let most = met.iter().map(|row| row.per_kilosecond).max()? as f64;
    let tied = met.iter().filter(|row| row.per_kilosecond as f64 >= most * (1.0 - TIE));
    tied.min_by_key(|row| (row.micros(), row.cell.level)).copied()
}

/// Cells that may be the best although one measurement does not show it. They are close to the best row that meets the
/// limit, or have more throughput and are undecided.
pub fn contenders(rows: &[&Row], limit: i64) -> Vec<Cell> {
    let met = rows.iter().filter(|row| row.judged(limit) == MeasurementVerdict::Feasible);
    let most = met.map(|row| row.per_kilosecond).max().unwrap_or(0) as f64;
    let is_possible =
        |row: &&&Row| matches!(row.judged(limit), MeasurementVerdict::Feasible | MeasurementVerdict::Unbounded);
    let close = rows.iter().filter(is_possible).filter(|row| row.per_kilosecond as f64 >= most * (1.0 - CLOSE));
    let mut close: Vec<&Row> = close.copied().collect();
    close.sort_by_key(|row| std::cmp::Reverse(row.per_kilosecond));
    let close: Vec<Cell> = close.into_iter().take(MOST_CONTENDERS).map(|row| row.cell.clone()).collect();
    // One that stands alone is the best already, if it meets the limit.
    if close.len() > 1 || most == 0.0 { close } else { Vec::new() }
}

/// The row whose figures stand for a cell that was measured several times: the middle one of those that meet the limit,
/// the worse of two. Nothing where most miss it.
pub fn settled<'a>(rows: &[&'a Row], limit: i64) -> Option<&'a Row> {
    let with = |verdict| rows.iter().filter(move |row| row.judged(limit) == verdict).copied();
    let misses = with(MeasurementVerdict::Infeasible).count();
    let mut met: Vec<&Row> = with(MeasurementVerdict::Feasible).collect();
    if 2 * misses > misses + met.len() + with(MeasurementVerdict::Unbounded).count() {
        return None;
    }
    met.sort_by_key(|row| row.per_kilosecond);
    met.get(met.len().checked_sub(1)? / 2).copied()
}

/// How many times as much one cell does as another, with the bounds of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ratio {
    pub value: f64,
    /// Absent with fewer than two pairs.
    pub bounds: Option<(f64, f64)>,
    pub pairs: usize,
}

/// The geometric mean of the ratios of pairs that were measured in turn, with Student's interval of their logarithms.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let bounds = (logs.len() > 1).then(|| {
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = STUDENT.get(logs.len() - 2).unwrap_or(&NORMAL) * (variance / count).sqrt();
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(Ratio { value: mean.exp(), bounds, pairs: logs.len() })
}

/// Rows of tests.
#[cfg(test)]
pub mod fixtures {
    use super::*;

    /// INT8, one instance and the first of all other values.
    pub fn cell(level: i32) -> Cell {
        Cell { precision: "INT8".into(), instances: 1, batch: "4".into(), delay: "0".into(), level }
    }

    /// A row of this throughput whose p90 is so many milliseconds, give or take a tenth.
    pub fn row(level: i32, per_kilosecond: i64, millis: i64) -> Row {
        let latency = Latency { microseconds: millis * 1_000, lower: millis * 900, upper: Some(millis * 1_100) };
        Row {
            cell: cell(level),
            purpose: MeasurementPurpose::Explore,
            verdict: MeasurementVerdict::Feasible,
            count: 180,
            milliseconds: 5_000,
            per_kilosecond,
            per_kilosecond_error: None,
            latency: Some(latency),
            gpu_milliseconds: 9_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{
        fixtures::{cell, row},
        *,
    };

    #[test]
    fn a_row_meets_a_limit_by_its_bound() {
        let row = row(2, 10_000, 100);
        let verdicts = [110_000, 109_999, 90_000, 89_999].map(|limit| row.judged(limit));
        let (met, open, missed) =
            (MeasurementVerdict::Feasible, MeasurementVerdict::Unbounded, MeasurementVerdict::Infeasible);
        assert_eq!(verdicts, [met, open, open, missed]);
        let failed = Row { verdict: MeasurementVerdict::Failed, ..row.clone() };
        let unknown = Row { latency: None, ..row };
        assert_eq!((failed.judged(i64::MAX), unknown.judged(i64::MAX)), (MeasurementVerdict::Failed, open));
    }

    #[test]
    fn the_limit_lies_in_the_widest_gap_of_the_middle_half() {
        let rows: Vec<Row> = [1, 50, 52, 60, 90, 95, 99, 1_000].iter().map(|millis| row(2, 1, *millis)).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(limit_of(&rows), Some(73_000), "between 60 and 90 ms");
        assert_eq!((limit_of(&rows[..1]), limit_of(&[])), (None, None));
        assert_eq!(limit_of(&rows[3..5]), Some(73_000), "of two");
    }

    #[test]
    fn of_equal_throughputs_the_lower_latency_wins() {
        let (slow, fast, slower) = (row(16, 10_000, 200), row(8, 9_901, 100), row(4, 9_800, 10));
        assert_eq!(best(&[&slow, &fast, &slower]), Some(&fast));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn what_is_close_or_undecided_contends() {
        let (met, close, far) = (row(2, 10_000, 50), row(4, 9_100, 50), row(6, 8_900, 50));
        let (open, missed) = (row(8, 12_000, 100), row(16, 20_000, 200));
        let all = [&met, &close, &far, &open, &missed];
        assert_eq!(contenders(&all, 100_000), [cell(8), cell(2), cell(4)]);
        assert_eq!(contenders(&[&met, &far, &missed], 100_000), Vec::<Cell>::new(), "one stands alone");
        assert_eq!(contenders(&[&open, &missed], 100_000), [cell(8)], "nothing meets the limit yet");
    }

    #[test]
    fn the_middle_of_several_measurements_counts() {
        let rows = [row(2, 10_000, 50), row(2, 12_000, 50), row(2, 11_000, 50)];
        assert_eq!(settled(&[&rows[0], &rows[1], &rows[2]], 100_000), Some(&rows[2]));
        assert_eq!(settled(&[&rows[0], &rows[1]], 100_000), Some(&rows[0]), "the worse of two");
        let (missed, open) = (row(2, 12_000, 150), row(2, 12_000, 100));
        assert_eq!(settled(&[&rows[0], &missed, &missed], 100_000), None);
        assert_eq!(settled(&[&open, &open, &rows[0]], 100_000), Some(&rows[0]));
        assert_eq!(settled(&[&open], 100_000), None);
    }

    #[test]
    fn a_ratio_has_students_interval() {
        let alike = ratio(&[(2.0, 1.0), (2.0, 1.0)]).unwrap();
        assert!((alike.value - 2.0).abs() < 1e-9 && alike.pairs == 2, "{alike:?}");
        // Logarithms -0.1, 0 and 0.1: a standard deviation of 0.1, and 4.303 * 0.1 / sqrt(3).
        let spread = ratio(&[(0.1_f64.exp(), 1.0), (1.0, 1.0), ((-0.1_f64).exp(), 1.0)]).unwrap();
        let (lower, upper) = spread.bounds.unwrap();
        assert!((spread.value - 1.0).abs() < 1e-9);
        assert!((lower - (-0.24843_f64).exp()).abs() < 1e-4 && (upper - 0.24843_f64.exp()).abs() < 1e-4, "{spread:?}");
        assert_eq!(ratio(&[(1.0, 1.0)]).unwrap().bounds, None);
        assert_eq!(ratio(&[(0.0, 1.0)]), None);
    }
}
