//! Records the traffic of a live agent: reads what its pods remember, and writes a file. Reads and writes IO.

use std::{
    fs::{OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use clap::Args as ClapArgs;
use slipway_crds::values::DurationText;
use slipway_vocabulary::recording::{PATH, Recording, RecordingLevel, TEXTS_PORT};
use thiserror::Error;

use crate::{
    cluster::{Cluster, ClusterError},
    forward::{ForwardError, Forwarder},
    record::{NothingRecorded, Recorded, Wanted, by_clock, next_steps, record},
};

/// What is to be recorded.
#[derive(Debug, Clone, ClapArgs)]
pub struct RecordArgs {
    /// Name of the AgentDeployment.
    pub name: String,
    /// Records the runs that arrived so lately; pods remember an hour.
    #[arg(long = "for", default_value = "1h", value_name = "DURATION")]
    pub within: DurationText,
    /// Output file; the default is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Records questions, arguments and results too, where spec.serving.recording.level is Texts. Needs kubectl, and
    /// the right to create pods/portforward.
    #[arg(long)]
    pub texts: bool,
}

/// Why nothing was recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The cluster gave no answer.
    #[error("failed to record {name}")]
    Read {
        /// Name of the AgentDeployment.
        name: String,
        /// Why.
        #[source]
        source: ClusterError,
    },
    /// The texts of a pod cannot be read.
    #[error("failed to read the texts of pod {pod}")]
    Texts {
        /// The pod.
        pod: String,
        /// Why.
        #[source]
        source: ForwardError,
    },
    /// What a pod answered is not what it remembers.
    #[error("failed to understand the texts of pod {pod}")]
    Answer {
        /// The pod.
        pod: String,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// There is nothing.
    #[error(transparent)]
    Nothing(NothingRecorded),
    /// The file cannot be written.
    #[error("failed to write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// What is read.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The namespace.
    pub cluster: &'a Cluster,
    /// Reaches what pods serve on loopback.
    pub forwarder: &'a Forwarder,
    /// The clock by which pods are joined, in microseconds of Unix time.
    pub clock: fn() -> u64,
}

/// This machine's clock, in microseconds of Unix time.
pub fn unix_micros() -> u64 {
    u64::try_from(k8s_openapi::jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}

/// Where results go.
pub struct Outputs<'a> {
    /// The lines, where no file is named; else what they are.
    pub out: &'a mut (dyn Write + Send),
    /// What the lines are that go to `out`.
    pub aside: &'a mut (dyn Write + Send),
}

/// Records, and tells what was recorded.
///
/// # Errors
/// [`RecordError`].
pub async fn run(
    sources: Sources<'_>,
    args: &RecordArgs,
    Outputs { out, aside }: Outputs<'_>,
) -> Result<(), RecordError> {
    let RecordArgs { name, within, output, texts } = args;
    let wanted = Wanted { name, micros: within.microseconds(), texts: *texts };
    wanted.check().map_err(RecordError::Nothing)?;
    let read = |source| RecordError::Read { name: name.clone(), source };
    let Sources { cluster, clock, .. } = sources;
    cluster.get(name).await.map_err(read)?;
    let mut pods = cluster.recordings(name, clock).await.map_err(read)?;
    wanted.check_pods(&pods).map_err(RecordError::Nothing)?;
    if *texts {
        let told = pods.recordings.iter_mut().filter(|recording| recording.level == RecordingLevel::Texts);
        for recording in told {
            *recording = with_texts(sources, &recording.pod).await?;
        }
    }
    let Recorded { lines, mut told } = record(wanted, &pods).map_err(RecordError::Nothing)?;
    let file = output.as_ref().map_or_else(|| "FILE".to_owned(), |path| path.display().to_string());
    told.extend(next_steps(&wanted, (&cluster.place().flags(), &file)));
    let aside = match output {
        Some(path) => {
            write(path, &lines, *texts).map_err(|source| RecordError::File { path: path.clone(), source })?;
            out
        }
        None => {
            out.write_all(lines.as_bytes()).map_err(RecordError::Write)?;
            aside
        }
    };
    told.iter().try_for_each(|line| writeln!(aside, "{line}")).map_err(RecordError::Write)
}

/// Texts are for nobody else on this machine.
fn write(path: &Path, lines: &str, is_private: bool) -> io::Result<()> {
    const OWNER: u32 = 0o600;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if is_private {
        options.mode(OWNER);
    }
    let mut file = options.open(path)?;
    if is_private && file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(OWNER))?;
    }
    file.write_all(lines.as_bytes())
}

async fn with_texts(Sources { forwarder, clock, .. }: Sources<'_>, pod: &str) -> Result<Recording, RecordError> {
    let answer = forwarder.get(pod, TEXTS_PORT, PATH).await;
    let answer = answer.map_err(|source| RecordError::Texts { pod: pod.to_owned(), source })?;
    let recording: Result<Recording, _> = serde_json::from_slice(&answer);
    let recording = recording.map_err(|source| RecordError::Answer { pod: pod.to_owned(), source })?;
    // A pod has the name by which the API server knows it, whatever it says.
    Ok(by_clock(Recording { pod: pod.to_owned(), ..recording }, clock()))
}
