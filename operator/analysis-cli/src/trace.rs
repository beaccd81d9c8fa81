//! `slipway-analysis trace`: reads trace files and prints the report. Reads files, writes temporary ones.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use slipway_trace::{
    Intake, Options, PhaseSource, SortError, SortOptions, analyze,
    averages::{self, Averages, AveragesError},
    format::{self, Format, FormatError},
    kineto::{self, KinetoError},
    nsys::{self, NsysError},
    report::Report,
    spans::{self, SpanExtent, SpansError},
};

use super::CliError;

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// SQLite exports of Nsight Systems, or chrome traces of torch.profiler (plain or .gz); several are ranks of one
    /// run.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Spans of the agent runtime, JSON lines, joined by wall clock.
    #[arg(long, value_name = "SPANS.jsonl")]
    spans: Option<PathBuf>,
    /// Operators as torch averages them: a JSON list of the rows of `prof.key_averages()` with their self times and
    /// FLOPs.
    #[arg(long, value_name = "AVERAGES.json")]
    averages: Option<PathBuf>,
    /// Format of the files; `auto` looks at their first bytes.
    #[arg(long, value_enum, default_value_t = FormatChoice::Auto)]
    format: FormatChoice,
    /// Directory of temporary files: about a tenth of a JSON trace's size, or as much as a SQLite export.
    #[arg(long, env = "TMPDIR", value_name = "DIR", default_value = "/tmp")]
    temporary_directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatChoice {
    Auto,
    Nsys,
    Kineto,
}

/// Why a trace could not be analysed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is of no known format.
    #[error("{}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        #[source]
        source: FormatError,
    },
    /// Files of two formats.
    #[error("{} is of another format than the files before it; pass the ranks of one run", path.display())]
    Mixed {
        /// The file.
        path: PathBuf,
    },
    /// The export cannot be used.
    #[error("{}", path.display())]
    Nsys {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: NsysError,
    },
    /// The chrome trace cannot be used.
    #[error("{}", path.display())]
    Kineto {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KinetoError,
    },
    /// The spans cannot be used.
    #[error("{}", path.display())]
    Spans {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SpansError,
    },
    /// The averages cannot be used.
    #[error("{}", path.display())]
    Averages {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: AveragesError,
    },
    /// The records cannot be put in order.
    #[error("failed to order the records")]
    Sort(#[source] SortError),
}

pub(super) fn run(arguments: &TraceArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let report = report(arguments).map_err(CliError::Trace)?;
    serde_json::to_writer(&mut *out, &report).map_err(|error| CliError::Write(error.into()))?;
    out.write_all(b"\n").map_err(CliError::Write)
}

fn report(arguments: &TraceArgs) -> Result<Report, TraceError> {
    let mut intake = Intake::new(SortOptions::in_directory(arguments.temporary_directory.clone()));
    let mut format = None;
    for path in &arguments.files {
        let found = read(path, arguments.format, &mut intake)?;
        if *format.get_or_insert(found) != found {
            return Err(TraceError::Mixed { path: path.clone() });
        }
    }
    let source = match &arguments.spans {
        None => PhaseSource::Ranges,
        Some(path) => {
            read_spans(path, &mut intake).map_err(|error| error.into_trace_error(path))?;
            PhaseSource::Spans
        }
    };
    let averages = arguments.averages.as_deref().map(read_averages).transpose()?;
    let options = Options { format: format.unwrap_or(Format::Kineto), phase_source: source, averages };
    analyze(intake.finish(), options).map_err(TraceError::Sort)
}

fn read(path: &Path, choice: FormatChoice, intake: &mut Intake) -> Result<Format, TraceError> {
    let failed = |source| TraceError::Read { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(failed)?.take(64).read_to_end(&mut head).map_err(failed)?;
    let found = match choice {
        FormatChoice::Auto => {
            let name = path.to_string_lossy();
            format::detect(&name, &head).map_err(|source| TraceError::Format { path: path.to_owned(), source })?
        }
        FormatChoice::Nsys => Format::Nsys,
        FormatChoice::Kineto => Format::Kineto,
    };
    match found {
        Format::Nsys => {
            nsys::read(path, intake).map_err(|source| TraceError::Nsys { path: path.to_owned(), source })?;
        }
        Format::Kineto => {
            let file = File::open(path).map_err(failed)?;
            let result = if format::is_gzip(&head) {
                kineto::read(flate2::read::MultiGzDecoder::new(BufReader::new(file)), intake)
            } else {
                kineto::read(file, intake)
            };
            result.map_err(|source| TraceError::Kineto { path: path.to_owned(), source })?;
        }
    }
    Ok(found)
}

fn read_averages(path: &Path) -> Result<Averages, TraceError> {
    let file = File::open(path).map_err(|source| TraceError::Read { path: path.to_owned(), source })?;
    averages::read(BufReader::new(file)).map_err(|source| TraceError::Averages { path: path.to_owned(), source })
}

enum SpansFailure {
    Open(io::Error),
    Use(SpansError),
}

impl SpansFailure {
    fn into_trace_error(self, path: &Path) -> TraceError {
        let path = path.to_owned();
        match self {
            Self::Open(source) => TraceError::Read { path, source },
            Self::Use(source) => TraceError::Spans { path, source },
        }
    }
}

fn read_spans(path: &Path, intake: &mut Intake) -> Result<SpanExtent, SpansFailure> {
    let file = File::open(path).map_err(SpansFailure::Open)?;
    let spans = spans::read(BufReader::new(file), intake).map_err(SpansFailure::Use)?;
    if let (Some(clock), Some(extent)) = (intake.clock(), intake.extent()) {
        let at = |nanos: i64| clock.origin_unix_nanos.saturating_add(nanos);
        spans.check(at(extent.from), at(extent.to)).map_err(SpansFailure::Use)?;
    }
    Ok(spans)
}
