//! Records the traffic of a live agent: reads what its pods remember, and writes a file. Reads and writes IO.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args as ClapArgs;
use slipway_crds::values::DurationText;
use slipway_vocabulary::recording::{PATH, Recording, RecordingLevel, TEXTS_PORT};
use thiserror::Error;

use crate::{
    cluster::{Cluster, ClusterError},
    forward::{ForwardError, Forwarder},
    record::{NothingRecorded, Recorded, Wanted, next_steps, record},
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
    (cluster, forwarder): (&Cluster, &Forwarder),
    args: &RecordArgs,
    Outputs { out, aside }: Outputs<'_>,
) -> Result<(), RecordError> {
    let RecordArgs { name, within, output, texts } = args;
    let wanted = Wanted { name, micros: within.microseconds(), texts: *texts };
    wanted.check().map_err(RecordError::Nothing)?;
    let read = |source| RecordError::Read { name: name.clone(), source };
    cluster.get(name).await.map_err(read)?;
    let mut pods = cluster.recordings(name).await.map_err(read)?;
    wanted.check_pods(&pods).map_err(RecordError::Nothing)?;
    if *texts {
        let told = pods.recordings.iter_mut().filter(|recording| recording.level == RecordingLevel::Texts);
        for recording in told {
            *recording = with_texts(forwarder, &recording.pod).await?;
        }
    }
    let Recorded { lines, mut told } = record(wanted, &pods).map_err(RecordError::Nothing)?;
    let file = output.as_ref().map_or_else(|| "FILE".to_owned(), |path| path.display().to_string());
    told.extend(next_steps(&wanted, (cluster.namespace(), &file)));
    let aside = match output {
        Some(path) => {
            fs::write(path, lines).map_err(|source| RecordError::File { path: path.clone(), source })?;
            out
        }
        None => {
            out.write_all(lines.as_bytes()).map_err(RecordError::Write)?;
            aside
        }
    };
    told.iter().try_for_each(|line| writeln!(aside, "{line}")).map_err(RecordError::Write)
}

async fn with_texts(forwarder: &Forwarder, pod: &str) -> Result<Recording, RecordError> {
    let answer = forwarder.get(pod, TEXTS_PORT, PATH).await;
    let answer = answer.map_err(|source| RecordError::Texts { pod: pod.to_owned(), source })?;
    serde_json::from_slice(&answer).map_err(|source| RecordError::Answer { pod: pod.to_owned(), source })
}
