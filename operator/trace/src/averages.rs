//! Operators as torch itself averages them (`prof.key_averages()`), for captures whose trace holds no shapes or no
//! operators. Reads IO.
//!
//! A JSON list of rows with `key`, `count`, `self_cpu_time_total`, `self_device_time_total` (microseconds) and, with
//! `with_flops=True`, `flops`:
//!
//! ```python
//! fields = ("key", "count", "self_cpu_time_total", "self_device_time_total", "flops")
//! json.dump([{f: getattr(row, f) for f in fields} for row in prof.key_averages()], open("averages.json", "w"))
//! ```
//!
//! Before torch 2.4 the attribute was called `self_cuda_time_total`. Only self times are taken: `cpu_time_total` and
//! `device_time_total` count an operator again in every operator that calls it.

use std::io::Read;

use serde::Deserialize;

use super::{
    classify::{self, ApiClass},
    timeline::threads::OperatorStats,
};

/// Why averages cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AveragesError {
    /// The text is not such a list.
    #[error("no list of rows of prof.key_averages() with key, count and self_cpu_time_total")]
    Parse(#[source] serde_json::Error),
    /// A row has only totals.
    #[error(
        "row {row} ({key}) has neither self_device_time_total nor self_cuda_time_total (before torch 2.4); totals count \
         nested operators twice, so write the self times"
    )]
    NoSelfTime {
        /// Row, from 1.
        row: usize,
        /// Its operator.
        key: String,
    },
    /// No row is an operator.
    #[error("no row is an operator; average while the model runs, with ProfilerActivity.CPU")]
    NoOperators,
}

#[derive(Deserialize)]
struct Row {
    key: String,
    count: u64,
    self_cpu_time_total: f64,
    #[serde(alias = "self_cuda_time_total")]
    self_device_time_total: Option<f64>,
    #[serde(default)]
    flops: f64,
}

/// Operators by name, and the host's time in CUDA calls that do not wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Averages {
    pub(super) operators: Vec<(String, OperatorStats)>,
    pub(super) calls_nanos: u64,
}

/// Reads averages.
///
/// # Errors
/// When the text is not a list of rows, or a row has no self time of the device.
pub fn read<R: Read>(reader: R) -> Result<Averages, AveragesError> {
    let rows: Vec<Row> = serde_json::from_reader(reader).map_err(AveragesError::Parse)?;
    let mut averages = Averages::default();
    for (at, row) in rows.into_iter().enumerate() {
        let Some(device) = row.self_device_time_total else {
            return Err(AveragesError::NoSelfTime { row: at + 1, key: row.key });
        };
        let cpu = nanos(row.self_cpu_time_total);
        match kind(&row) {
            Kind::Operator => {
                let (device_nanos, flops) = (nanos(device), row.flops.max(0.0) as u64);
                let stats = OperatorStats {
                    count: row.count,
                    self_cpu_nanos: cpu,
                    device_nanos,
                    flops,
                    bytes: 0,
                    flops_device_nanos: if flops > 0 { device_nanos } else { 0 },
                };
                averages.operators.push((row.key, stats));
            }
            Kind::Call => averages.calls_nanos = averages.calls_nanos.saturating_add(cpu),
            Kind::Neither => {}
        }
    }
    if averages.operators.is_empty() {
        return Err(AveragesError::NoOperators);
    }
    averages.operators.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(averages)
}

enum Kind {
    Operator,
    Call,
    Neither,
}

/// The list also holds kernels (no host time), ranges (no namespace) and waits for the device, which are not work.
fn kind(row: &Row) -> Kind {
    let is_call = row.key.starts_with("cuda") || row.key.starts_with("cu") && !row.key.contains("::");
    if is_call {
        let waits = classify::api_class(&row.key) == ApiClass::Synchronize;
        return if waits { Kind::Neither } else { Kind::Call };
    }
    if row.key.contains("::") && row.self_cpu_time_total > 0.0 { Kind::Operator } else { Kind::Neither }
}

fn nanos(micros: f64) -> u64 {
    (micros.max(0.0) * 1_000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("self_device_time_total")]
    #[case("self_cuda_time_total")]
    fn both_names_of_the_devices_time_are_read(#[case] field: &str) {
        let text = format!(
            r#"[{{"key":"aten::mm","count":2,"self_cpu_time_total":10.5,"cpu_time_total":99,"{field}":400,"flops":8e9}},
            {{"key":"void at::native::kernel","count":2,"self_cpu_time_total":0,"{field}":400}},
            {{"key":"decode","count":1,"self_cpu_time_total":7,"{field}":0}},
            {{"key":"cudaLaunchKernel","count":2,"self_cpu_time_total":4,"{field}":0}},
            {{"key":"cudaDeviceSynchronize","count":1,"self_cpu_time_total":900,"{field}":0}}]"#
        );

        let averages = read(text.as_bytes()).unwrap();

        let product = OperatorStats {
            count: 2,
            self_cpu_nanos: 10_500,
            device_nanos: 400_000,
            flops: 8_000_000_000,
            bytes: 0,
            flops_device_nanos: 400_000,
        };
        assert_eq!(averages, Averages { operators: vec![("aten::mm".to_owned(), product)], calls_nanos: 4_000 });
    }

    #[rstest]
    #[case("{}", "no list of rows of prof.key_averages() with key, count and self_cpu_time_total")]
    #[case(
        r#"[{"key":"aten::mm","count":1,"self_cpu_time_total":1,"cuda_time_total":5}]"#,
        "row 1 (aten::mm) has neither self_device_time_total nor self_cuda_time_total (before torch 2.4); totals count nested \
         operators twice, so write the self times"
    )]
    #[case("[]", "no row is an operator; average while the model runs, with ProfilerActivity.CPU")]
    fn unusable_averages_are_refused(#[case] text: &str, #[case] message: &str) {
        assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), message);
    }
}
