//! How long verdicts take at today's traffic; and of a rollout under way its verdict, the evidence against the bound,
//! and both revisions over time as SVG. Pure.

use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{LogEvidence, RolloutStatus},
};
use slipway_vocabulary::evidence::{Quantile, WINDOW_SECONDS};

use super::{
    Material,
    html::{Cell, Line, escaped, table},
    plot::tick_label,
    scale::Scale,
};
use crate::{
    arms::{Arms, Band, PERIOD_WINDOWS, Period, PodCounts, Side, name, time_of_day},
    outlook,
    rollout::{is_strongest, rollback_bound},
    table::duration,
};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
/// Edges of the field.
const LEFT: f64 = 88.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = HEIGHT - 54.0;
/// Width and height of a bar of evidence.
const BAR: (f64, f64) = (220.0, 10.0);

/// The section, or nothing where no canary is on trial and nothing says how long a verdict would take.
pub(super) fn section(material: &Material<'_>) -> String {
    let body = on_trial(material) + &outlook(material);
    if body.is_empty() { body } else { format!("<section>\n<h2>Rollout</h2>\n{body}</section>\n") }
}

/// The steps of the spec and fewer of them, before a rollout starts and while it runs.
fn outlook(material: &Material<'_>) -> String {
    let Some(forecast) = outlook::forecast(material.object, material.evidence) else { return String::new() };
    let line = |row: Vec<String>| Line { class: "", cells: row.into_iter().map(Cell::Text).collect() };
    let lines: Vec<Line> = outlook::rows(&forecast).into_iter().map(line).collect();
    let notes: Vec<String> = outlook::notes(material.object, &forecast).iter().map(|note| escaped(note)).collect();
    let caption = format!("{}.", outlook::title(&forecast));
    format!("{}<p>{}</p>\n", table(&caption, &outlook::HEADER, &lines), notes.join("<br>\n"))
}

/// The canary, or nothing where there is none.
fn on_trial(material: &Material<'_>) -> String {
    let object = material.object;
    let Some(rollout) = object.status.as_ref().and_then(|status| status.rollout.as_ref()) else { return String::new() };
    let Some(canary) = &rollout.canary else { return String::new() };
    let arms = Arms::of(object, material.evidence);
    let (figure, pods) = arms.as_ref().map_or_else(
        || ("<p>No pod of the canary says what it counted.</p>\n".to_owned(), String::new()),
        |arms| (format!("<figure>\n{}</figure>\n", figure(arms)), by_pod(arms)),
    );
    format!(
        "<p>Canary <code>{}</code> has {} % of the traffic. {}</p>\n{figure}{}{pods}",
        escaped(canary),
        rollout.weight.unwrap_or(0),
        escaped(&verdict(rollout)),
        evidence(object, rollout)
    )
}

fn verdict(rollout: &RolloutStatus) -> String {
    let Some(verdict) = rollout.verdict else { return "The judge has not spoken yet.".to_owned() };
    let reason = rollout.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    let message = rollout.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    format!("The judge says {}{reason}{message}.", verdict.as_str())
}

/// Every guard with a bar up to the bound at which the canary is rolled back.
fn evidence(object: &AgentDeployment, rollout: &RolloutStatus) -> String {
    if rollout.evidence.is_empty() {
        return String::new();
    }
    let bound = rollback_bound(object);
    let (width, height) = BAR;
    let bar = |entry: &LogEvidence| {
        let share = entry.log_evidence.parse::<f64>().unwrap_or(0.0) / bound.max(f64::MIN_POSITIVE);
        format!(
            "<tr{}><td>{}</td><td class=\"n\">{}</td><td><svg class=\"evidence\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{:.0} % of the bound\"><rect class=\"whole\" width=\"{width}\" \
             height=\"{height}\"/><rect width=\"{:.1}\" height=\"{height}\"/></svg></td></tr>\n",
            if is_strongest(entry, &rollout.evidence) { " class=\"chosen\"" } else { "" },
            escaped(&entry.guard),
            escaped(&entry.log_evidence),
            share.clamp(0.0, 1.0) * 100.0,
            share.clamp(0.0, 1.0) * width
        )
    };
    let rows: String = rollout.evidence.iter().map(bar).collect();
    format!(
        "<table>\n<caption>Evidence of harm, as logarithms. The canary is rolled back when their weighted mean reaches \
         {bound:.1}.</caption>\n<thead><tr><th scope=\"col\">Guard</th><th scope=\"col\">Logarithm</th>\
         <th scope=\"col\">Of the bound</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}

fn by_pod(arms: &Arms) -> String {
    let line = |of: &PodCounts| {
        let PodCounts { pod, side, counts } = of;
        let p95 = counts.band(Quantile::P95).map_or("-".to_owned(), |band| duration(band.point));
        let numbers = [counts.units.to_string(), counts.failed.to_string(), p95].map(Cell::Number);
        let cells = [Cell::Text(pod.clone()), Cell::Text(name(*side).to_owned())].into_iter().chain(numbers);
        Line { class: "", cells: cells.collect() }
    };
    let lines: Vec<Line> = arms.pods.iter().map(line).collect();
    let caption = format!("{} in the same time, pod by pod.", arms.metric);
    table(&caption, &["Pod", "Revision", "Units", "Failed", "p95"], &lines)
}

/// Both revisions over time: of each period the p50 and the p95, with their bounds as bands.
fn figure(arms: &Arms) -> String {
    let values: Vec<f64> = arms.drawn().into_iter().map(|value| value.max(1) as f64).collect();
    let vertical = Scale::around(&values, (BOTTOM, TOP));
    let times = Times::of(&arms.periods);
    let mut body = axes(arms, &vertical, &times);
    for period in &arms.periods {
        for (side, counts) in &period.sides {
            for (class, quantile) in [("p50", Quantile::P50), ("p95", Quantile::P95)] {
                let place = times.of_side(period.begin_seconds, *side);
                let drawn = counts.band(quantile).map(|band| drawn(band, (*side, class), (place, &vertical)));
                body.push_str(&drawn.unwrap_or_default());
            }
        }
    }
    body.push_str(&legend());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"rollout-title rollout-description\">\n<title id=\"rollout-title\">{} of both revisions over \
         time</title>\n<desc id=\"rollout-description\">Bands from bound to bound of the p50 and the p95, stable left \
         and canary right in each period of five minutes.</desc>\n{body}</svg>\n",
        arms.metric
    )
}

/// A band with a line at the percentile. Where too few values bound it, it ends at the edge of the field.
fn drawn(band: Band, (side, class): (Side, &str), ((left, width), vertical): ((f64, f64), &Scale)) -> String {
    let at = |value: u64| vertical.at(value.max(1) as f64).clamp(TOP, BOTTOM);
    let (top, bottom) = (band.upper.map_or(TOP, at), if band.lower == 0 { BOTTOM } else { at(band.lower) });
    let (y, side) = (at(band.point), name(side));
    let open = if band.upper.is_none() { " open" } else { "" };
    format!(
        "<rect class=\"band {side} {class}{open}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{:.1}\"/><line class=\"point {side} {class}\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" \
         y2=\"{y:.1}\"/>\n",
        (bottom - top).max(1.0),
        left + width
    )
}

/// Where the periods lie.
struct Times {
    first: u64,
    width: f64,
}

impl Times {
    fn of(periods: &[Period]) -> Self {
        let first = periods.first().map_or(0, |period| period.begin_seconds);
        let last = periods.last().map_or(0, |period| period.begin_seconds);
        let count = (last - first) / (PERIOD_WINDOWS * WINDOW_SECONDS) + 1;
        Self { first, width: (RIGHT - LEFT) / count as f64 }
    }

    fn left(&self, begin_seconds: u64) -> f64 {
        LEFT + self.width * ((begin_seconds - self.first) / (PERIOD_WINDOWS * WINDOW_SECONDS)) as f64
    }

    /// Left edge and width of a side's half of a period.
    fn of_side(&self, begin_seconds: u64, side: Side) -> (f64, f64) {
        let half = self.width * 0.42;
        let offset = match side {
            Side::Reference => self.width * 0.06,
            Side::Canary => self.width * 0.52,
        };
        (self.left(begin_seconds) + offset, half)
    }
}

fn axes(arms: &Arms, vertical: &Scale, times: &Times) -> String {
    let mut text = String::new();
    for tick in vertical.ticks() {
        let y = vertical.at(tick);
        text.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            y + 4.5,
            escaped(&tick_label(tick))
        ));
    }
    for period in &arms.periods {
        text.push_str(&format!(
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            times.left(period.begin_seconds) + 2.0,
            BOTTOM + 19.0,
            time_of_day(period.begin_seconds)
        ));
    }
    text.push_str(&format!(
        "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
         <line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{BOTTOM}\"/>\n\
         <text class=\"name\" transform=\"translate(22 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">start of the period, UTC</text>\n",
        TOP.midpoint(BOTTOM),
        arms.metric,
        LEFT.midpoint(RIGHT),
        HEIGHT - 12.0
    ));
    text
}

/// What colours and strengths mean.
fn legend() -> String {
    let entries = [
        ("stable p50", "p50 with its bounds, stable"),
        ("stable p95", "p95, stable"),
        ("canary p50", "p50, canary"),
        ("canary p95", "p95, canary"),
    ];
    let entry = |(at, (class, words)): (usize, &(&str, &str))| {
        let x = LEFT + 215.0 * at as f64;
        format!(
            "<rect class=\"band {class}\" x=\"{x:.1}\" y=\"12\" width=\"18\" height=\"12\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"22.5\">{words}</text>\n",
            x + 24.0
        )
    };
    entries.iter().enumerate().map(entry).collect()
}
