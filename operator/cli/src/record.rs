//! The traffic of a live agent as the file of a workload: what its pods remember, joined. Pure.

mod file;

use slipway_vocabulary::recording::{KEPT_SECONDS, Minute, RecordedRun, Recording, RecordingLevel, TraceLine, VERSION};
use thiserror::Error;

use crate::table::counted;

use file::{File, Line, file, number};

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
    /// Names of those that ended before they answered.
    pub gone: Vec<String>,
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
    /// Only pods without texts have had traffic.
    #[error(
        "the pods that remember texts have answered no run of the last {time}: record once their revision has traffic, \
         or leave out --texts"
    )]
    NoTextsYet {
        /// The time that was asked for.
        time: String,
    },
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
    /// Most of the traffic would be missing.
    #[error(
        "the file would have {kept} of {all} runs, as {silent} cannot be replayed with texts, {dropped} had to go and \
         {unanswered} had no answer. Less than a half is other traffic: {remedy}"
    )]
    Minority {
        /// How many there would be.
        kept: u64,
        /// How many arrived.
        all: u64,
        /// Those that have no texts, or contradict others.
        silent: u64,
        /// Those that pods forgot.
        dropped: u64,
        /// Those without an answer.
        unanswered: u64,
        /// What helps.
        remedy: &'static str,
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
    pub fn check_pods(&self, Pods { recordings, older, gone: _ }: &Pods) -> Result<(), NothingRecorded> {
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
        let mut runs: Vec<_> = recordings.iter().flat_map(|recording| self.runs_of(recording)).collect();
        runs.sort_by_key(|run| run.lengths.arrived_micros);
        runs
    }

    fn runs_of<'a>(&self, recording: &'a Recording) -> impl Iterator<Item = &'a RecordedRun> + use<'a> {
        let time = self.since(recording)..=recording.at_micros;
        recording.runs.iter().filter(move |run| run.lengths.arrived_micros.is_some_and(|at| time.contains(&at)))
    }

    /// How many of the runs that a pod counted by the minute are asked for.
    fn lately(&self, recording: &Recording, minutes: &[Minute]) -> u64 {
        let since = self.since(recording);
        minutes.iter().filter(|minute| minute.ends_after(since)).fold(0, |all, minute| minute.runs.saturating_add(all))
    }

    /// How many runs that are asked for a pod forgot.
    fn dropped(&self, recording: &Recording) -> u64 {
        if self.exceeds(recording) { self.lately(recording, &recording.dropped) } else { 0 }
    }
}

/// What a pod said, by another clock than its own, which read so much when it answered.
#[must_use]
pub fn by_clock(mut recording: Recording, now_micros: u64) -> Recording {
    let at = recording.at_micros;
    let shift = |micros: &mut u64| {
        *micros = match now_micros.checked_sub(at) {
            Some(behind) => micros.saturating_add(behind),
            None => micros.saturating_sub(at - now_micros),
        };
    };
    shift(&mut recording.at_micros);
    shift(&mut recording.since_micros);
    recording.dropped.iter_mut().chain(&mut recording.unanswered).for_each(|minute| shift(&mut minute.at_micros));
    for run in &mut recording.runs {
        run.lengths.arrived_micros.iter_mut().for_each(shift);
        // A run arrived once.
        let arrived = run.lengths.arrived_micros;
        run.texts.iter_mut().for_each(|texts| texts.arrived_micros = arrived);
    }
    recording
}

/// Joins what the pods remember to one file.
///
/// # Errors
/// There is nothing to record, and why.
pub fn record(wanted: Wanted<'_>, pods: &Pods) -> Result<Recorded, NothingRecorded> {
    wanted.check()?;
    wanted.check_pods(pods)?;
    let Pods { recordings, older, gone } = pods;
    let runs = wanted.runs(recordings);
    if runs.is_empty() {
        return Err(NothingRecorded::NoRun { time: time(wanted.micros) });
    }
    let of_all = |of: &dyn Fn(&Recording) -> u64| recordings.iter().map(of).fold(0, u64::saturating_add);
    let dropped = of_all(&|recording| wanted.dropped(recording));
    let unanswered = of_all(&|recording| wanted.lately(recording, &recording.unanswered));
    let missing = Missing { answered: number(runs.len()), dropped, unanswered };
    let mut told = Vec::new();
    let file = if wanted.texts {
        let lines = with_texts((&wanted, recordings), &runs, &mut told)?;
        missing.file(&wanted, recordings, lines)?
    } else {
        missing.file(&wanted, recordings, runs.iter().map(|run| run.lengths.clone()).collect())?
    };
    tell(&mut told, file.left_out, ", the oldest: a workload holds no more");
    tell(&mut told, unanswered, " without an answer; the rate has them too");
    told.extend(recordings.iter().filter_map(|recording| less(&wanted, recording)));
    told.extend(older.iter().map(|pod| format!("pod {pod} remembers no runs: its agent runtime is older")));
    told.extend(gone.iter().map(|pod| format!("pod {pod} ended before it answered: its runs are missing")));
    told.insert(0, headline(&file, recordings.len()));
    Ok(Recorded { lines: file.text, told })
}

/// The runs that arrived, whether they are lines or not.
struct Missing {
    answered: u64,
    dropped: u64,
    unanswered: u64,
}

impl Missing {
    /// A file that stands for all of them.
    fn file<L: Line>(
        &self,
        wanted: &Wanted<'_>,
        recordings: &[Recording],
        lines: Vec<L>,
    ) -> Result<File, NothingRecorded> {
        let Self { answered, dropped, unanswered } = *self;
        let (kept, all) = (number(lines.len()), answered.saturating_add(dropped).saturating_add(unanswered));
        let file = file(lines, all);
        enough(wanted, recordings, &file)?;
        let silent = answered - kept;
        if all - kept <= kept {
            return Ok(file);
        }
        let remedy = if silent > unanswered { "leave out --texts" } else { "record while most runs are answered" };
        Err(NothingRecorded::Minority { kept, all, silent, dropped, unanswered, remedy })
    }
}

/// The runs that a trace can replay.
fn with_texts(
    (wanted, recordings): (&Wanted<'_>, &[Recording]),
    runs: &[&RecordedRun],
    told: &mut Vec<String>,
) -> Result<Vec<TraceLine>, NothingRecorded> {
    let line =
        |run: &&RecordedRun| Some(TraceLine { arrived_micros: run.lengths.arrived_micros, ..run.texts.clone()? });
    let texts: Vec<TraceLine> = runs.iter().filter_map(line).collect();
    if texts.is_empty() {
        let mut with_texts = recordings.iter().filter(|recording| recording.level == RecordingLevel::Texts);
        if with_texts.all(|recording| wanted.runs_of(recording).next().is_none()) {
            return Err(NothingRecorded::NoTextsYet { time: time(wanted.micros) });
        }
        return Err(NothingRecorded::NotReplayable { runs: runs.len() });
    }
    tell(told, number(runs.len() - texts.len()), " that cannot be replayed with texts");
    Ok(texts)
}

/// A file of which more had to go than is left is not the traffic of the time that was asked for.
fn enough(wanted: &Wanted<'_>, recordings: &[Recording], file: &File) -> Result<(), NothingRecorded> {
    let short = recordings.iter().filter(|recording| wanted.dropped(recording) > 0);
    let dropped = short.clone().map(|recording| wanted.dropped(recording)).fold(file.left_out, u64::saturating_add);
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

fn headline(File { first, last, kept, per_kilosecond, .. }: &File, pods: usize) -> String {
    let rate = match per_kilosecond {
        Some(runs) => format!("{:.3} a second", *runs as f64 / 1e3),
        None => "too few or too close for a rate: a campaign lets them arrive at random".to_owned(),
    };
    let (runs, pods, took) = (counted(*kept, "run"), counted(number(pods), "pod"), time(last.saturating_sub(*first)));
    format!("{runs} of {pods} in {took}, from {} to {}, {rate}", moment(*first), moment(*last))
}

/// Says what was left out, if anything was.
fn tell(told: &mut Vec<String>, runs: u64, words: &str) {
    if runs > 0 {
        told.push(format!("left out: {}{words}", counted(runs, "run")));
    }
}

/// Says of a pod that it remembers less than was asked for.
fn less(wanted: &Wanted<'_>, recording: &Recording) -> Option<String> {
    let Recording { pod, level, at_micros, since_micros, .. } = recording;
    let dropped = wanted.dropped(recording);
    let known = time(at_micros.saturating_sub(*since_micros));
    match (level, dropped) {
        (RecordingLevel::None, _) => Some(format!("pod {pod} remembers no runs: its revision records nothing")),
        (RecordingLevel::Lengths, _) if wanted.texts => Some(format!("pod {pod} remembers no texts")),
        (RecordingLevel::Lengths | RecordingLevel::Texts, _) if !wanted.exceeds(recording) => None,
        (RecordingLevel::Lengths | RecordingLevel::Texts, 0) => Some(format!("pod {pod} has served for {known}")),
        (RecordingLevel::Lengths | RecordingLevel::Texts, 1..) => {
            let runs = counted(dropped, "run");
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

/// How a file becomes the traffic of a campaign, with the flags by which kubectl finds the namespace.
pub fn next_steps(Wanted { name, texts, .. }: &Wanted<'_>, (flags, file): (&[String], &str)) -> Vec<String> {
    let kind = if *texts { "agentTrace" } else { "recordedLengths" };
    let flags: String = flags.iter().map(|flag| format!(" {}", quoted(flag))).collect();
    let from = quoted(&format!("--from-file={KEY}={file}"));
    vec![
        format!(
            "kubectl create configmap {name}-runs{flags} {from} --dry-run=client -o yaml | \
             kubectl apply{flags} --server-side -f -"
        ),
        format!(
            "spec.profiling: {{workloads: [{{name: recorded, {kind}: {{configMap: {{name: {name}-runs, key: {KEY}}}}}}}]}}"
        ),
    ]
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:@%+,".contains(character);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
