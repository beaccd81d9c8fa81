//! AIConfigurator's table of expectations. Pure.
//!
//! Columns are those of its aggregated serving (ai-dynamo/aiconfigurator, `ColumnsAgg` in
//! aic-core/src/aiconfigurator_core/sdk/common.py at 095f58a); others are not read. Times are in milliseconds. A row is
//! of one replica: so are its `concurrency` and its `seq/s`.

use std::collections::{BTreeMap, BTreeSet};

use csv::{Reader, ReaderBuilder, StringRecord};

use super::number::Field;

/// Most rows of a table. A ConfigMap has room for fewer with all of AIConfigurator's columns.
const MOST_ROWS: usize = 5_000;
/// Most bytes of a table, as of a ConfigMap.
const MOST_BYTES: usize = 1024 * 1024;
/// Columns that a table must have.
const REQUIRED: [&str; 9] = ["model", "system", "backend", "concurrency", "tp", "gemm", "seq/s", "ttft", "tpot"];

/// What rows of one curve over the load have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setup {
    pub(super) model: String,
    pub(super) backend: String,
    pub(super) system: String,
    pub(super) split: Split,
    /// Number formats of dense layers, of experts, and of the KV cache, as AIConfigurator names them.
    pub(super) gemm: String,
    pub(super) moe: String,
    pub(super) kv_cache: String,
    pub(super) traffic: Traffic,
}

/// How a replica is split over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Split {
    pub(super) tensor_parallel: u32,
    pub(super) pipeline_parallel: u32,
    /// Whether it is split in another way too, by which no engine here is: `dp`, `cp` and `moe_ep`.
    pub(super) is_more: bool,
}

/// Tokens of each request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traffic {
    pub(super) isl: String,
    pub(super) osl: String,
    pub(super) prefix: String,
}

/// What is expected at a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) per_kilosecond: u64,
    pub(super) request_micros: u64,
    pub(super) first_token_micros: u64,
    pub(super) inter_token_micros: u64,
}

/// The rows of a setup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Curve {
    /// Number of rows.
    pub(super) rows: usize,
    /// Per number of requests in flight, the row of the highest throughput.
    pub(super) points: BTreeMap<u32, Point>,
}

/// A table that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub(super) curves: BTreeMap<Setup, Curve>,
}

impl Table {
    /// Reads AIConfigurator's CSV.
    ///
    /// # Errors
    /// In words: what is wrong, where, and the remedy.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("it has {} bytes, and a table {MOST_BYTES} at most: remove rows", text.len()));
        }
        let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
        let columns = Columns::of(&mut reader)?;
        let mut table = Self::default();
        let mut record = StringRecord::new();
        let mut rows = 0;
        while reader.read_record(&mut record).map_err(|error| not_csv(&error))? {
            rows += 1;
            if rows > MOST_ROWS {
                return Err(format!("it has more than {MOST_ROWS} rows: keep those of this model, GPU and backend"));
            }
            let line = record.position().map_or(0, csv::Position::line);
            let Row { setup, concurrency, point } = columns.row(&record, line)?;
            let curve = table.curves.entry(setup).or_default();
            curve.rows += 1;
            let known = curve.points.entry(concurrency).or_insert(point);
            if known.per_kilosecond < point.per_kilosecond {
                *known = point;
            }
        }
        if rows == 0 { Err("it has no rows below its header: add some".to_owned()) } else { Ok(table) }
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        const SETUP: usize = 512;
        let points: usize = self.curves.values().map(|curve| curve.points.len()).sum();
        SETUP * self.curves.len() + 2 * size_of::<(u32, Point)>() * points
    }

    /// The models that it has rows of.
    pub(super) fn models(&self) -> BTreeSet<&str> {
        self.curves.keys().map(|setup| setup.model.as_str()).collect()
    }
}

fn not_csv(error: &csv::Error) -> String {
    format!("it is not a CSV table: {error}; take AIConfigurator's pareto.csv or best_config_topn.csv as it is")
}

/// A row as it was read.
struct Row {
    setup: Setup,
    concurrency: u32,
    point: Point,
}

/// Positions of columns, by their names.
struct Columns(BTreeMap<String, usize>);

impl Columns {
    fn of(reader: &mut Reader<&[u8]>) -> Result<Self, String> {
        let header = reader.headers().map_err(|error| not_csv(&error))?;
        let columns: BTreeMap<String, usize> = header.iter().map(|name| name.trim().to_owned()).zip(0..).collect();
        let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| !columns.contains_key(*name)).collect();
        match missing.as_slice() {
            [] => Ok(Self(columns)),
            _ if columns.contains_key("(d)tp") => {
                Err("it is of disaggregated serving, which no engine here is: take the file of folder agg".to_owned())
            }
            missing => Err(format!(
                "its first line lacks the columns {}: take AIConfigurator's pareto.csv or best_config_topn.csv as it \
                 is",
                missing.join(", ")
            )),
        }
    }

    fn row(&self, record: &StringRecord, line: u64) -> Result<Row, String> {
        let field = |column| self.0.get(column).map(|position| Field::of(record, (line, column), *position));
        let required = |column| field(column).unwrap_or(Field { line, column, text: "" });
        let text = |column| field(column).map(|field| field.text.to_owned()).unwrap_or_default();
        let lower = |column| text(column).to_lowercase();
        // One where a table does not say it.
        let ways = |column| field(column).filter(|field| !field.text.is_empty()).map_or(Ok(1), Field::count);
        let split = Split {
            tensor_parallel: required("tp").count()?,
            pipeline_parallel: ways("pp")?,
            is_more: ways("dp")? > 1 || ways("cp")? > 1 || ways("moe_ep")? > 1,
        };
        let setup = Setup {
            model: text("model"),
            backend: lower("backend"),
            system: lower("system"),
            split,
            gemm: lower("gemm"),
            moe: lower("moe"),
            kv_cache: lower("kvcache"),
            traffic: Traffic { isl: text("isl"), osl: text("osl"), prefix: text("prefix") },
        };
        let concurrency = required("concurrency").count()?;
        let per_kilosecond = required("seq/s").thousandths()?;
        // By Little's law, where a table has no latency of requests.
        let little = u64::from(concurrency).saturating_mul(1_000_000_000) / per_kilosecond;
        let point = Point {
            per_kilosecond,
            request_micros: field("request_latency").map_or(Ok(little.max(1)), Field::thousandths)?,
            first_token_micros: required("ttft").thousandths()?,
            inter_token_micros: required("tpot").thousandths()?,
        };
        Ok(Row { setup, concurrency, point })
    }
}
