//! The traffic of a live agent as the file of a workload: what its pods remember, joined. Pure.

mod file;

use slipway_vocabulary::recording::{
    KEPT_SECONDS, RecordedRun, Recording, RecordingLevel, RunLengths, TraceLine, VERSION,
};
use thiserror::Error;

use crate::table::counted;

use file::{File, file, number, without_contradictions};

/// Key of the file in a ConfigMap.
const KEY: &str = "runs.jsonl";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The AgentDeployment.
    pub name: &'a str,
    /// Runs that arrived so lately, in microseconds.
    pub micros: u64,
    /// With their texts.
    pub texts: bool,
}

/// What the pods of an agent said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pods {
    /// What they remember.
    pub recordings: Vec<Recording>,
    /// Names of those whose agent runtime is from before recordings.
    pub older: Vec<String>,
}

/// Why there is no file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NothingRecorded {
    /// Pods do not remember so much.
    #[error("--for: pods remember an hour: write 1h or less")]
    TooLong,
    /// No pod serves.
    #[error("no pod of {0} is ready: `kubectl slipway get {0}` shows why")]
    NoPod(String),
    /// All pods are of an earlier release.
    #[error(
        "the pods of {0} have an agent runtime from before recordings, and the next revision brings a newer one: \
         change spec.agent or spec.serving, and record once that revision has served"
    )]
    Older(String),
    /// A pod is of a later release.
    #[error(
        "pod {pod} writes version {version} of recordings, and this plugin reads {VERSION}: install a newer plugin"
    )]
    Newer {
        /// The pod.
        pod: String,
        /// What it writes.
        version: u32,
    },
    /// The spec opts out.
    #[error(
        "the pods of {0} remember no runs: set spec.serving.recording.level to Lengths, and record once the new \
         revision has served"
    )]
    Off(String),
    /// The spec does not opt in.
    #[error(
        "the pods of {0} remember no texts: set spec.serving.recording.level to Texts, and record once the new \
         revision has served"
    )]
    NoTexts(String),
    /// Nobody asked, or nothing was answered.
    #[error("no run of the last {time} was answered: write a longer --for, or wait for traffic")]
    NoRun {
        /// The time that was asked for.
        time: String,
    },
    /// None of the runs can be replayed.
    #[error(
        "none of {runs} runs can be replayed with its texts, as conversations, clients' instructions and failed tools \
         cannot: leave out --texts"
    )]
    NotReplayable {
        /// How many there are.
        runs: usize,
    },
    /// What is there is too little of what was asked for.
    #[error(
        "{dropped} runs of the last {time} had to go, as pods and files hold only so many, and {kept} are left: write \
         --for {known}, of which every run is there"
    )]
    Dropped {
        /// How many had to go.
        dropped: u64,
        /// How many there are.
        kept: u64,
        /// The time that was asked for.
        time: String,
        /// The time of which there are all.
        known: String,
    },
}

/// A file, and what is to be known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// A run a line.
    pub lines: String,
    /// What it holds, and what was left out, line by line.
    pub told: Vec<String>,
}

impl Wanted<'_> {
    /// Checks what is asked for.
    ///
    /// # Errors
    /// [`NothingRecorded::TooLong`].
    pub fn check(&self) -> Result<(), NothingRecorded> {
        if self.micros > KEPT_SECONDS * 1_000_000 { Err(NothingRecorded::TooLong) } else { Ok(()) }
    }

    /// Whether pods remember what is asked for.
    ///
    /// # Errors
    /// They do not, and what to do about it.
    pub fn check_pods(&self, Pods { recordings, older }: &Pods) -> Result<(), NothingRecorded> {
        let name = || self.name.to_owned();
        if recordings.is_empty() {
            return Err(if older.is_empty() { NothingRecorded::NoPod(name()) } else { NothingRecorded::Older(name()) });
        }
        if let Some(Recording { pod, version, .. }) = recordings.iter().find(|pod| pod.version > VERSION) {
            return Err(NothingRecorded::Newer { pod: pod.clone(), version: *version });
        }
        let is_any = |level: RecordingLevel| recordings.iter().any(|recording| recording.level == level);
        match (is_any(RecordingLevel::Texts), is_any(RecordingLevel::Lengths)) {
            (true, _) => Ok(()),
            (false, _) if self.texts => Err(NothingRecorded::NoTexts(name())),
            (false, true) => Ok(()),
            (false, false) => Err(NothingRecorded::Off(name())),
        }
    }

    /// Since when runs are asked for, by the pod's clock.
    fn since(&self, recording: &Recording) -> u64 {
        recording.at_micros.saturating_sub(self.micros)
    }

    /// Whether a pod remembers less than is asked for.
    fn exceeds(&self, recording: &Recording) -> bool {
        recording.since_micros > self.since(recording)
    }

    /// The runs that are asked for, by the time of their arrival.
    fn runs<'a>(&self, recordings: &'a [Recording]) -> Vec<&'a RecordedRun> {
        let runs = recordings.iter().flat_map(|recording| {
            let since = self.since(recording);
            recording.runs.iter().filter(move |run| run.lengths.arrived_micros.is_some_and(|arrived| arrived >= since))
        });
        let mut runs: Vec<_> = runs.collect();
        runs.sort_by_key(|run| run.lengths.arrived_micros);
        runs
    }
}

/// Joins what the pods remember to one file.
///
/// # Errors
/// There is nothing to record, and why.
pub fn record(wanted: Wanted<'_>, pods: &Pods) -> Result<Recorded, NothingRecorded> {
    wanted.check()?;
    wanted.check_pods(pods)?;
    let Pods { recordings, older } = pods;
    let runs = wanted.runs(recordings);
    if runs.is_empty() {
        return Err(NothingRecorded::NoRun { time: time(wanted.micros) });
    }
    let mut told = Vec::new();
    let file = if wanted.texts {
        file(with_texts(&runs, &mut told)?)
    } else {
        file(runs.iter().map(|run| run.lengths.clone()).collect::<Vec<RunLengths>>())
    };
    enough(&wanted, recordings, &file)?;
    tell(&mut told, file.left_out, ", the oldest: a workload holds no more");
    let unanswered: u64 = recordings.iter().map(|recording| recording.unanswered).sum();
    tell(&mut told, unanswered, " of the last hour without an answer");
    told.extend(recordings.iter().filter_map(|recording| less(&wanted, recording)));
    told.extend(older.iter().map(|pod| format!("pod {pod} remembers no runs: its agent runtime is older")));
    told.insert(0, headline(&file, recordings.len()));
    Ok(Recorded { lines: file.text, told })
}

/// The runs that a trace can replay.
fn with_texts(runs: &[&RecordedRun], told: &mut Vec<String>) -> Result<Vec<TraceLine>, NothingRecorded> {
    let texts: Vec<TraceLine> = runs.iter().filter_map(|run| run.texts.clone()).collect();
    if texts.is_empty() {
        return Err(NothingRecorded::NotReplayable { runs: runs.len() });
    }
    tell(told, number(runs.len() - texts.len()), " that cannot be replayed with texts");
    let all = texts.len();
    let alike = without_contradictions(texts);
    tell(told, number(all - alike.len()), " whose tools gave another result to an equal call");
    Ok(alike)
}

/// A file of which more had to go than is left is not the traffic of the time that was asked for.
fn enough(wanted: &Wanted<'_>, recordings: &[Recording], file: &File) -> Result<(), NothingRecorded> {
    let short = recordings.iter().filter(|recording| wanted.exceeds(recording) && recording.dropped > 0);
    let dropped = short.clone().map(|recording| recording.dropped).sum::<u64>() + file.left_out;
    if dropped <= file.kept {
        return Ok(());
    }
    let of_pods = short.map(|recording| recording.at_micros.saturating_sub(recording.since_micros));
    let now = recordings.iter().map(|recording| recording.at_micros).max().unwrap_or(file.last);
    let of_file = (file.left_out > 0).then(|| now.saturating_sub(file.first));
    let known = of_pods.chain(of_file).min().unwrap_or(wanted.micros);
    let known = match known / 1_000_000 {
        seconds @ ..120 => format!("{}s", seconds.max(1)),
        seconds => format!("{}m", seconds / 60),
    };
    Err(NothingRecorded::Dropped { dropped, kept: file.kept, time: time(wanted.micros), known })
}

fn headline(File { first, last, kept, .. }: &File, pods: usize) -> String {
    let micros = last - first;
    let rate = match micros {
        0 => String::new(),
        micros => format!(", {:.3} a second", (kept - 1) as f64 * 1e6 / micros as f64),
    };
    let (runs, pods) = (counted(*kept, "run"), counted(number(pods), "pod"));
    format!("{runs} of {pods} in {}, from {} to {}{rate}", time(micros), moment(*first), moment(*last))
}

/// Says what was left out, if anything was.
fn tell(told: &mut Vec<String>, runs: u64, words: &str) {
    if runs > 0 {
        told.push(format!("left out: {}{words}", counted(runs, "run")));
    }
}

/// Says of a pod that it remembers less than was asked for.
fn less(wanted: &Wanted<'_>, recording: &Recording) -> Option<String> {
    let Recording { pod, level, at_micros, since_micros, dropped, .. } = recording;
    let known = time(at_micros.saturating_sub(*since_micros));
    match (level, dropped) {
        (RecordingLevel::None, _) => Some(format!("pod {pod} remembers no runs: its revision records nothing")),
        (RecordingLevel::Lengths, _) if wanted.texts => Some(format!("pod {pod} remembers no texts")),
        (RecordingLevel::Lengths | RecordingLevel::Texts, _) if !wanted.exceeds(recording) => None,
        (RecordingLevel::Lengths | RecordingLevel::Texts, 0) => Some(format!("pod {pod} has served for {known}")),
        (RecordingLevel::Lengths | RecordingLevel::Texts, 1..) => {
            let runs = counted(*dropped, "run");
            Some(format!("pod {pod} remembers only the last {known}: {runs} had to go, as it holds only so many"))
        }
    }
}

/// Seconds, or minutes of two and more.
fn time(micros: u64) -> String {
    match micros / 1_000_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// A moment of Unix time, to the second.
fn moment(micros: u64) -> String {
    let second = i64::try_from(micros / 1_000_000).ok();
    let moment = second.and_then(|second| k8s_openapi::jiff::Timestamp::from_second(second).ok());
    moment.map_or_else(|| format!("{micros} us"), |moment| moment.to_string())
}

/// How a file becomes the traffic of a campaign.
pub fn next_steps(Wanted { name, texts, .. }: &Wanted<'_>, (namespace, file): (&str, &str)) -> Vec<String> {
    let kind = if *texts { "agentTrace" } else { "recordedLengths" };
    vec![
        format!("kubectl create configmap {name}-runs --namespace {namespace} --from-file={KEY}={file}"),
        format!(
            "spec.profiling: {{workloads: [{{name: recorded, {kind}: {{configMap: {{name: {name}-runs, key: {KEY}}}}}}}]}}"
        ),
    ]
}
