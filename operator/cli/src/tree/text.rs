//! A tree as a terminal shows it: a pure function of the tree, the width and the time. Pure.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use slipway_crds::v1alpha1::agent_deployment::{ObjectiveStatus, Stage};

use crate::{
    revisions::{Role, Share},
    table::{api_name, table},
    tree::{
        Happening, ProgressState, Revision, Tree,
        lines::{Ink, Line, Tone, shortened, wrapped},
        pod::PodView,
    },
    view::rollout::{GuardEvidence, Judgement},
};

/// Narrower than this, nothing can be laid out.
const LEAST_WIDTH: usize = 40;
/// From this width on bars are twice as long.
const WIDE: usize = 100;
/// Characters of a name, at least.
const LEAST_NAME: usize = 16;

/// How a tree is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Whether tones are shown.
    pub ink: Ink,
    /// How moments are shown.
    pub moments: Moments,
    /// What is shown beside the tree.
    pub focus: Focus,
}

/// How moments are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// As the time since then: `5m`.
    Ages(Timestamp),
    /// As they are, so that a text changes only with what it shows.
    Times,
}

/// What is shown beside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// The agent: its objectives.
    Agent,
    /// Its rollout: guardrails, capacity, what was rolled back, what waits for approval.
    Rollout,
}

/// Draws a tree.
pub fn text(tree: &Tree, screen: &Screen) -> String {
    let width = screen.width.max(LEAST_WIDTH);
    lines(tree, screen, width).iter().map(|line| format!("{}\n", line.write(width, screen.ink))).collect()
}

fn lines(tree: &Tree, screen: &Screen, width: usize) -> Vec<Line> {
    let mut all = title(tree, width);
    all.push(Line::new());
    all.extend(rows(tree, screen, width));
    let judgement = tree.judgement.as_ref().map_or(Vec::new(), |judgement| judged(tree, judgement, width));
    let beside = match screen.focus {
        Focus::Agent => objectives(&tree.objectives),
        Focus::Rollout => tree.details.lines().flat_map(|line| detail(line, width)).collect(),
    };
    for section in [judgement, beside, events(&tree.events, screen.moments)] {
        if !section.is_empty() {
            all.push(Line::new());
            all.extend(section);
        }
    }
    all
}

fn title(tree: &Tree, width: usize) -> Vec<Line> {
    let place = if tree.namespace.is_empty() { String::new() } else { format!(" in {}", tree.namespace) };
    let (word, tone) = match tree.progress.state {
        ProgressState::Ready => ("ready", Tone::Good),
        ProgressState::InProgress => ("in progress", Tone::Waiting),
        ProgressState::Suspended => ("waits for you", Tone::Waiting),
        ProgressState::Stalled => ("stalled", Tone::Bad),
    };
    let selected = tree.selected.as_ref().map_or(String::new(), |selected| format!("; {selected} is chosen"));
    let first = Line::of(tree.name.clone(), Tone::Strong).and(format!("{place}: "), Tone::Plain).and(word, tone);
    let first = first.and(selected, Tone::Plain);
    let message = tree.progress.message.as_deref().unwrap_or_default();
    let rest = wrapped(message, width - 2).into_iter().map(|line| Line::of(format!("  {line}"), Tone::Plain));
    std::iter::once(first).chain(rest).collect()
}

/// One row of the tree.
struct Row {
    /// What leads to it from the root: `│  ├─ `.
    branch: String,
    name: String,
    tone: Tone,
    cells: Cells,
}

/// What stands behind a name.
enum Cells {
    /// Ready, status, restarts, age.
    Columns([(String, Tone); 4]),
    /// Words.
    Words(String),
}

const HEADER: [&str; 4] = ["READY", "STATUS", "RESTARTS", "AGE"];

fn rows(tree: &Tree, screen: &Screen, width: usize) -> Vec<Line> {
    let rows = all_rows(tree, screen, width);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| match &row.cells {
            Cells::Columns(cells) => Some(cells[column].0.chars().count()),
            Cells::Words(_) => None,
        });
        cells.chain([HEADER[column].len()]).max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3].map(widest);
    let room = width.saturating_sub(widths.iter().map(|width| width + 2).sum()).max(LEAST_NAME);
    let length = |row: &Row| row.branch.chars().count() + row.name.chars().count();
    let name_width = rows.iter().map(length).max().unwrap_or_default().clamp("NAME".len(), room);
    let header = HEADER.map(|title| (title.to_owned(), Tone::Faint));
    let header =
        Row { branch: String::new(), name: "NAME".to_owned(), tone: Tone::Faint, cells: Cells::Columns(header) };
    std::iter::once(header).chain(rows).map(|row| laid_out(&row, name_width, widths)).collect()
}

fn laid_out(row: &Row, name_width: usize, widths: [usize; 4]) -> Line {
    let Row { branch, name, tone, cells } = row;
    let room = name_width.saturating_sub(branch.chars().count());
    let name = shortened(name, room);
    let line = Line::of(branch.clone(), Tone::Faint).and(format!("{name:<room$}"), *tone);
    match cells {
        Cells::Words(words) => line.and(format!("  {words}"), Tone::Plain),
        Cells::Columns(cells) => cells.iter().zip(widths).fold(line, |line, ((text, tone), width)| {
            line.and("  ", Tone::Plain).and(format!("{text:<width$}"), *tone)
        }),
    }
}

fn all_rows(tree: &Tree, screen: &Screen, width: usize) -> Vec<Row> {
    let bar = if width >= WIDE { 20 } else { 10 };
    let mut branches: Vec<Branch> = tree.revisions.iter().map(|of| revision(of, screen, bar)).collect();
    branches.extend(tree.engines.iter().map(|engine| {
        let cells = Cells::Words(engine.state.clone());
        Branch { name: format!("engine {}", engine.display_name), tone: Tone::Plain, cells, pods: Vec::new() }
    }));
    branches.extend(tree.jobs.iter().map(|job| Branch {
        name: format!("job {}", job.name),
        tone: Tone::Plain,
        cells: Cells::Columns(pod_cells(job, screen)),
        pods: Vec::new(),
    }));
    let last = branches.len().saturating_sub(1);
    let rows = branches.into_iter().enumerate().flat_map(|(at, branch)| branch.rows(at == last));
    std::iter::once(root(tree)).chain(rows).collect()
}

/// What hangs from the root.
struct Branch {
    name: String,
    tone: Tone,
    cells: Cells,
    pods: Vec<(String, [(String, Tone); 4])>,
}

impl Branch {
    fn rows(self, is_last: bool) -> Vec<Row> {
        let (own, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let first = Row { branch: own.to_owned(), name: self.name, tone: self.tone, cells: self.cells };
        let last = self.pods.len().saturating_sub(1);
        let pods = self.pods.into_iter().enumerate().map(|(at, (name, cells))| {
            let branch = format!("{below}{}", if at == last { "└─ " } else { "├─ " });
            Row { branch, name, tone: Tone::Plain, cells: Cells::Columns(cells) }
        });
        std::iter::once(first).chain(pods).collect()
    }
}

fn root(tree: &Tree) -> Row {
    let ready = match (tree.ready_pods, tree.wanted_pods) {
        (Some(ready), Some(wanted)) => format!("{ready}/{wanted}"),
        (Some(_) | None, _) => String::new(),
    };
    let stage = tree.stage.map_or(("Unknown".to_owned(), Tone::Waiting), |stage| (api_name(&stage), of_stage(stage)));
    let cells = Cells::Columns([(ready, Tone::Plain), stage, plain(""), plain("")]);
    Row { branch: String::new(), name: tree.name.clone(), tone: Tone::Strong, cells }
}

fn of_stage(stage: Stage) -> Tone {
    match stage {
        Stage::Serving => Tone::Good,
        Stage::Refused | Stage::RolledBack | Stage::Stalled | Stage::Failed => Tone::Bad,
        Stage::Resolving
        | Stage::Fetching
        | Stage::Building
        | Stage::Profiling
        | Stage::RollingOut
        | Stage::Paused
        | Stage::AwaitingApproval => Tone::Waiting,
    }
}

fn plain(text: impl Into<String>) -> (String, Tone) {
    (text.into(), Tone::Plain)
}

fn revision(of: &Revision, screen: &Screen, bar: usize) -> Branch {
    let Revision { share: Share { role, revision, share_percent, since, until: _ }, pods } = of;
    let ready = pods.iter().filter(|pod| pod.is_ready).count();
    let tone = match role {
        Role::Stable => Tone::Good,
        Role::Canary | Role::Baseline => Tone::Waiting,
        Role::Leaving => Tone::Faint,
    };
    let share = match role {
        Role::Leaving => plain("no traffic"),
        Role::Stable | Role::Canary | Role::Baseline => {
            let share = usize::try_from(*share_percent).unwrap_or(0);
            (format!("{share_percent:>3} % {}", filled((share * bar).div_ceil(100), bar)), tone)
        }
    };
    let cells = [plain(format!("{ready}/{}", pods.len())), share, plain(""), moment(since.as_ref(), screen.moments)];
    Branch {
        name: format!("{} {revision}", role.as_str()),
        tone,
        cells: Cells::Columns(cells),
        pods: pods.iter().map(|pod| (pod.name.clone(), pod_cells(pod, screen))).collect(),
    }
}

fn pod_cells(pod: &PodView, screen: &Screen) -> [(String, Tone); 4] {
    let PodView { is_ready, ready_containers, containers, status, restarts, started_at, .. } = pod;
    let is_broken = ["Error", "BackOff", "Failed", "Killed", "Evicted", "Err"].iter().any(|word| status.contains(word));
    let tone = match (is_ready, is_broken) {
        (_, true) => Tone::Bad,
        (true, false) => Tone::Good,
        (false, false) => Tone::Waiting,
    };
    [
        (format!("{ready_containers}/{containers}"), tone),
        (status.clone(), tone),
        plain(restarts.to_string()),
        moment(started_at.as_ref(), screen.moments),
    ]
}

/// `####......`.
fn filled(full: usize, all: usize) -> String {
    let full = full.min(all);
    format!("{}{}", "#".repeat(full), ".".repeat(all - full))
}

fn moment(time: Option<&Time>, moments: Moments) -> (String, Tone) {
    let text = time.map_or(String::new(), |time| match moments {
        Moments::Ages(now) => age(now.duration_since(time.0).as_secs()),
        Moments::Times => time.0.strftime("%m-%d %H:%M").to_string(),
    });
    plain(text)
}

/// As kubectl writes ages, with one unit.
fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..10_800 => format!("{}m", seconds / 60),
        seconds @ 10_800..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn judged(tree: &Tree, judgement: &Judgement, width: usize) -> Vec<Line> {
    let Judgement { verdict, reason, message, judged_at, rollback_bound, evidence, .. } = judgement;
    let word = verdict.map_or("no verdict yet", |verdict| verdict.as_str());
    let reason = reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    let at = judged_at.as_ref().map_or(String::new(), |at| format!(", {}", at.0.strftime("%H:%M:%S UTC")));
    let mut all = vec![Line::of("Judge: ", Tone::Strong).and(format!("{word}{reason}{at}"), Tone::Plain)];
    let words = wrapped(message.as_deref().unwrap_or_default(), width - 2);
    all.extend(words.into_iter().map(|line| Line::of(format!("  {line}"), Tone::Plain)));
    all.extend(steps(tree));
    let longest = evidence.iter().map(|of| of.guard.chars().count()).max().unwrap_or_default();
    let room = longest.min(width / 2);
    let bar = if width >= WIDE { 40 } else { 20 };
    all.extend(evidence.iter().map(|of| guard(of, room, bar)));
    if !evidence.is_empty() {
        let words = format!("  the canary is rolled back when the mean of these bars is full ({rollback_bound:.1})");
        all.push(Line::of(words, Tone::Faint));
    }
    all
}

/// `step 1 of 2: 20 %, then 50 %, then all`.
fn steps(tree: &Tree) -> Option<Line> {
    let step = tree.step.and_then(|step| usize::try_from(step).ok())?;
    let weights: Vec<String> = tree.steps.iter().map(|weight| format!("{weight} %")).collect();
    (!weights.is_empty()).then(|| {
        let place = if step > weights.len() {
            "past the last step".to_owned()
        } else {
            format!("step {step} of {}", weights.len())
        };
        Line::of(format!("  {place}: {}, then all traffic", weights.join(", ")), Tone::Plain)
    })
}

fn guard(of: &GuardEvidence, room: usize, bar: usize) -> Line {
    let GuardEvidence { guard, log_evidence, share_of_bound, is_strongest } = of;
    let full = (share_of_bound * bar as f64).round() as usize;
    let tone = match (*share_of_bound >= 0.75, *is_strongest) {
        (true, _) => Tone::Bad,
        (false, true) => Tone::Waiting,
        (false, false) => Tone::Plain,
    };
    let mark = if *is_strongest { "  the strongest" } else { "" };
    let guard = shortened(guard, room);
    Line::of(format!("  {guard:<room$}  {log_evidence:>6.2}  "), Tone::Plain)
        .and(filled(full, bar), tone)
        .and(mark, tone)
}

fn objectives(all: &[ObjectiveStatus]) -> Vec<Line> {
    if all.is_empty() {
        return Vec::new();
    }
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |entry: &ObjectiveStatus| {
        let met = entry.met.map_or("-", |met| if met { "yes" } else { "no" });
        let left = entry.budget.as_ref().map_or("-".to_owned(), |budget| budget.left.clone());
        let (predicted, observed) = (or_dash(&entry.predicted), or_dash(&entry.observed));
        vec![entry.name.clone(), entry.target.clone(), predicted, observed, met.to_owned(), left]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let has_budget = all.iter().any(|entry| entry.budget.is_some());
    let columns = if has_budget { 6 } else { 5 };
    let header = ["OBJECTIVE", "TARGET", "PREDICTED", "OBSERVED", "MET", "BUDGET LEFT"];
    let drawn = table(&header[..columns], &rows.iter().map(|row| row[..columns].to_vec()).collect::<Vec<_>>());
    let tones = all.iter().map(|entry| match entry.met {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    });
    let tones = std::iter::once(Tone::Faint).chain(tones);
    drawn.lines().zip(tones).map(|(line, tone)| Line::of(line, tone)).collect()
}

/// A line of words, broken where it is too long; what follows is moved to the right.
fn detail(line: &str, width: usize) -> Vec<Line> {
    let indent: String = line.chars().take_while(|sign| *sign == ' ').collect();
    if line.chars().count() <= width {
        return vec![Line::of(line, Tone::Plain)];
    }
    let broken = wrapped(line, width.saturating_sub(indent.len() + 2));
    let moved = |(at, text): (usize, String)| {
        let further = if at == 0 { "" } else { "  " };
        Line::of(format!("{indent}{further}{text}"), Tone::Plain)
    };
    broken.into_iter().enumerate().map(moved).collect()
}

fn events(all: &[Happening], moments: Moments) -> Vec<Line> {
    if all.is_empty() {
        return Vec::new();
    }
    let when = |of: &Happening| {
        of.at.as_ref().map_or(String::new(), |at| match moments {
            Moments::Ages(now) => age(now.duration_since(at.0).as_secs()),
            Moments::Times => at.0.strftime("%H:%M:%S").to_string(),
        })
    };
    let times: Vec<String> = all.iter().map(when).collect();
    let room = times.iter().map(String::len).max().unwrap_or_default();
    let reason_room = all.iter().map(|of| of.reason.chars().count()).max().unwrap_or_default().min(24);
    let line = |(of, time): (&Happening, &String)| {
        let Happening { is_warning, reason, message, .. } = of;
        let tone = if *is_warning { Tone::Bad } else { Tone::Plain };
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason = shortened(reason, reason_room);
        Line::of(format!("  {time:>room$}  "), Tone::Faint)
            .and(format!("{reason:<reason_room$}  "), tone)
            .and(message, Tone::Plain)
    };
    let lines = all.iter().zip(&times).map(line);
    std::iter::once(Line::of("Events, latest first:", Tone::Strong)).chain(lines).collect()
}
