//! The points of a campaign, throughput against latency, as SVG. Pure.

use slipway_crds::v1alpha1::profile::{Measurement, MeasurementPurpose, MeasurementVerdict};

use super::{html::escaped, scale::Scale};
use crate::{
    study::{Assessment, Study},
    table::duration,
};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 540.0;
/// Edges of the field of points.
const LEFT: f64 = 88.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = HEIGHT - 62.0;

/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008); each engine has a shape as well.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];
/// Radius of a point.
const RADIUS: f64 = 6.0;
/// Mean width of a character, as a share of the size of the letters.
const CHARACTER: f64 = 0.56;
const LETTERS: f64 = 13.0;
/// Points beyond which only those on the front are named.
const MANY: usize = 40;

struct Point<'a> {
    position: usize,
    row: &'a Measurement,
    assessment: Assessment,
    x: f64,
    y: f64,
    /// Ends of the bar that shows the bounds.
    bar: (f64, f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn around(x: f64, y: f64, half: f64) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_in_field(&self) -> bool {
        self.left >= LEFT && self.right <= RIGHT && self.top >= TOP && self.bottom <= BOTTOM
    }
}

/// The plot, or nothing where no point has a latency.
pub(super) fn plot(study: &Study<'_>) -> Option<String> {
    let rows: Vec<_> = study.rows().filter(|(_, row)| is_drawn(row) && study.latency(row).is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let rates: Vec<f64> = rows.iter().map(|(_, row)| row.per_kilosecond as f64 / 1e3).collect();
    let limit = study.judged().map(|objective| objective.max.microseconds() as f64);
    let latencies = rows.iter().filter_map(|(_, row)| study.latency(row));
    let values: Vec<f64> = latencies
        .flat_map(|l| [Some(l.microseconds), Some(l.lower).filter(|lower| *lower > 0), l.upper])
        .flatten()
        .map(|value| value as f64)
        .chain(limit)
        .collect();
    let horizontal = Scale::from_zero(&rates, (LEFT, RIGHT));
    let vertical = Scale::around(&values, (BOTTOM, TOP));
    let points: Vec<Point<'_>> =
        rows.iter().filter_map(|&(at, row)| point(study, (at, row), (&horizontal, &vertical))).collect();
    let mut parts = vec![axes(study, &horizontal, &vertical)];
    let limit = limit.map(|limit| vertical.at(limit));
    parts.extend(limit.map(|y| limit_line(study, y)));
    parts.push(front(&front_of(&points, study)));
    parts.extend(points.iter().map(bar));
    parts.extend(points.iter().map(|point| marker(study, point)));
    parts.push(labels(study, &points, limit));
    parts.push(legend(study, &points));
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"plot-title plot-description\">\n<title id=\"plot-title\">Throughput and latency of every measured \
         point</title>\n<desc id=\"plot-description\">{}</desc>\n{}</svg>\n",
        escaped(&description(study, &points)),
        parts.concat()
    ))
}

fn is_drawn(row: &Measurement) -> bool {
    row.purpose == MeasurementPurpose::Explore && row.verdict != MeasurementVerdict::Failed
}

fn point<'a>(
    study: &Study<'a>,
    (position, row): (usize, &'a Measurement),
    (horizontal, vertical): (&Scale, &Scale),
) -> Option<Point<'a>> {
    let latency = study.latency(row)?;
    let y = vertical.at(latency.microseconds as f64);
    let end = |value: i64| vertical.at(value as f64).clamp(TOP, BOTTOM);
    Some(Point {
        position,
        row,
        assessment: study.assessment(position, row),
        x: horizontal.at(row.per_kilosecond as f64 / 1e3),
        y,
        bar: (end(latency.lower), latency.upper.map_or(y, end)),
    })
}

fn axes(study: &Study<'_>, horizontal: &Scale, vertical: &Scale) -> String {
    let mut text = String::new();
    for tick in horizontal.ticks() {
        let x = horizontal.at(tick);
        text.push_str(&format!(
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>\n",
            BOTTOM + 19.0
        ));
    }
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
    let latency = study.judged().map_or("Latency".to_owned(), |o| format!("{} {}", o.metric.as_str(), o.percentile));
    let kind = if vertical.is_logarithmic() { ", logarithmic" } else { "" };
    text.push_str(&format!(
        "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
         <line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{BOTTOM}\"/>\n\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} a second (more is better)</text>\n\
         <text class=\"name\" transform=\"translate(22 {:.1}) rotate(-90)\" text-anchor=\"middle\">{} (lower is better{kind})</text>\n",
        LEFT.midpoint(RIGHT),
        HEIGHT - 18.0,
        escaped(study.unit(MeasurementPurpose::Explore)),
        TOP.midpoint(BOTTOM),
        escaped(&latency)
    ));
    text
}

/// Without digits that say nothing: `200ms`, not `200.0ms`.
pub(super) fn tick_label(microseconds: f64) -> String {
    match microseconds {
        0.0 => "0".to_owned(),
        value if value >= 1e6 => format!("{}s", value / 1e6),
        value if value >= 1e3 => format!("{}ms", value / 1e3),
        value => format!("{value}us"),
    }
}

fn limit_text(study: &Study<'_>) -> String {
    let words = study.judged().map(|o| format!("{}: at most {}", o.name, duration(o.max.microseconds())));
    words.unwrap_or_default()
}

fn limit_line(study: &Study<'_>, y: f64) -> String {
    format!(
        "<rect class=\"beyond\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
         <line class=\"limit\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
         <text class=\"limit-name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        RIGHT - LEFT,
        (y - TOP).max(0.0),
        LEFT + 8.0,
        y - 7.0,
        escaped(&limit_text(study))
    )
}

/// Points of the front from the lowest throughput to the highest. Those that only their cost speaks for are not on the
/// line of throughput and latency.
fn front_of<'p, 'a>(points: &'p [Point<'a>], study: &Study<'_>) -> Vec<&'p Point<'a>> {
    let is_member =
        |point: &&Point<'_>| study.status().front.iter().any(|at| usize::try_from(*at).ok() == Some(point.position));
    let members: Vec<&Point<'_>> = points.iter().filter(is_member).collect();
    // Lower latencies are further down.
    let beats = |a: &Point<'_>, b: &Point<'_>| a.x >= b.x && a.y >= b.y && (a.x > b.x || a.y > b.y);
    let is_beaten = |of: &Point<'_>| members.iter().any(|other| beats(other, of));
    let mut members: Vec<&Point<'_>> = members.iter().copied().filter(|member| !is_beaten(member)).collect();
    members.sort_by(|a, b| a.x.total_cmp(&b.x));
    members
}

/// A staircase: nothing that was measured lies below it or to its right.
fn front(members: &[&Point<'_>]) -> String {
    let mut path = String::new();
    for member in members {
        let (start, y) = (if path.is_empty() { format!("M{LEFT} ") } else { "V".to_owned() }, member.y);
        path.push_str(&format!("{start}{y:.1}H{:.1}", member.x));
    }
    if path.is_empty() { path } else { format!("<path class=\"front\" d=\"{path}V{TOP}\"/>\n") }
}

/// The lines of the staircase, which no name may cross.
fn front_areas(members: &[&Point<'_>]) -> Vec<Area> {
    let mut areas = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let left = if index == 0 { LEFT } else { members[index - 1].x };
        let top = members.get(index + 1).map_or(TOP, |next| next.y);
        areas.push(Area { left, top: member.y - 1.0, right: member.x, bottom: member.y + 1.0 });
        areas.push(Area { left: member.x - 1.0, top, right: member.x + 1.0, bottom: member.y });
    }
    areas
}

fn bar(point: &Point<'_>) -> String {
    let (low, high) = point.bar;
    format!("<line class=\"bar\" x1=\"{0:.1}\" y1=\"{low:.1}\" x2=\"{0:.1}\" y2=\"{high:.1}\"/>\n", point.x)
}

fn engine_index(study: &Study<'_>, name: &str) -> usize {
    study.inputs().engines.iter().position(|engine| engine.name == name).unwrap_or_default()
}

fn is_out(assessment: Assessment) -> bool {
    match assessment {
        Assessment::Misses | Assessment::Undecided | Assessment::Failed | Assessment::Nearest => true,
        Assessment::Chosen
        | Assessment::Prediction
        | Assessment::Front
        | Assessment::Beaten(_)
        | Assessment::Meets
        | Assessment::Compared => false,
    }
}

fn marker(study: &Study<'_>, point: &Point<'_>) -> String {
    let index = engine_index(study, &point.row.engine);
    let colour = COLOURS[index % COLOURS.len()];
    let style = if is_out(point.assessment) {
        "fill=\"#ffffff\" stroke=\"#8c8c8c\" stroke-width=\"2\"".to_owned()
    } else {
        format!("fill=\"{colour}\" stroke=\"#ffffff\" stroke-width=\"1\"")
    };
    let ring = match point.assessment {
        Assessment::Chosen | Assessment::Nearest => {
            format!("<circle class=\"ring\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\"/>", point.x, point.y, RADIUS + 5.0)
        }
        _ => String::new(),
    };
    let (place, remark) = (study.place(point.row), study.remark(point.position, point.row));
    let title = format!("#{} {place}: {remark}", point.position + 1);
    format!("<g><title>{}</title>{ring}{}</g>\n", escaped(&title), shape(index, (point.x, point.y), &style))
}

fn shape(index: usize, (x, y): (f64, f64), style: &str) -> String {
    let (r, side) = (RADIUS, RADIUS * 1.8);
    match index % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" {style}/>"),
        1 => {
            let (left, top) = (x - side / 2.0, y - side / 2.0);
            format!("<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side:.1}\" height=\"{side:.1}\" {style}/>")
        }
        2 => {
            let (top, height, width) = (y - r * 1.1, r * 1.9, r * 2.2);
            format!("<path d=\"M{x:.1} {top:.1}l{:.1} {height:.1}h-{width:.1}z\" {style}/>", width / 2.0)
        }
        _ => {
            let (top, half) = (y - r * 1.25, r * 1.25);
            format!(
                "<path d=\"M{x:.1} {top:.1}l{half:.1} {half:.1}l-{half:.1} {half:.1}l-{half:.1} -{half:.1}z\" {style}/>"
            )
        }
    }
}

/// Names of points, each where it hides nothing; a point without room for its name has its number, or nothing.
fn labels(study: &Study<'_>, points: &[Point<'_>], limit: Option<f64>) -> String {
    let mut taken: Vec<Area> = points.iter().map(|point| Area::around(point.x, point.y, RADIUS + 2.0)).collect();
    taken.extend(points.iter().map(|point| Area {
        left: point.x - 1.0,
        top: point.bar.0.min(point.bar.1),
        right: point.x + 1.0,
        bottom: point.bar.0.max(point.bar.1),
    }));
    taken.extend(front_areas(&front_of(points, study)));
    taken.extend(limit.map(|y| {
        let right = LEFT + 8.0 + width_of(&limit_text(study));
        Area { left: LEFT, top: y - 7.0 - LETTERS, right, bottom: y + 3.0 }
    }));
    taken.extend(limit.map(|y| Area { left: LEFT, top: y - 1.0, right: RIGHT, bottom: y + 1.0 }));
    let rank = |point: &Point<'_>| match point.assessment {
        Assessment::Chosen | Assessment::Nearest => 0,
        Assessment::Front => 1,
        _ => 2,
    };
    let mut ordered: Vec<&Point<'_>> = points.iter().collect();
    ordered.sort_by_key(|point| (rank(point), point.position));
    let mut text = String::new();
    for point in ordered {
        let number = format!("#{}", point.position + 1);
        let full = format!("{number} {}", study.place(point.row));
        let candidates = match rank(point) {
            0 | 1 => vec![full, number],
            _ if points.len() > MANY => Vec::new(),
            _ => vec![number],
        };
        if let Some((area, label)) =
            candidates.into_iter().find_map(|label| Some((free(point, &label, &taken)?, label)))
        {
            let class = if rank(point) == 0 { "label chosen" } else { "label" };
            let (x, y) = (area.left + 2.0, area.bottom - 4.0);
            text.push_str(&format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escaped(&label)));
            taken.push(area);
        }
    }
    text
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTERS * CHARACTER
}

/// The first free place around a point.
fn free(point: &Point<'_>, label: &str, taken: &[Area]) -> Option<Area> {
    let (width, height, gap) = (width_of(label) + 4.0, LETTERS + 4.0, RADIUS + 6.0);
    let (x, y) = (point.x, point.y);
    let corners = [
        (x + gap, y - height / 2.0),
        (x + gap * 0.7, y + gap * 0.7),
        (x + gap * 0.7, y - gap * 0.7 - height),
        (x - gap - width, y - height / 2.0),
        (x - gap * 0.7 - width, y - gap * 0.7 - height),
        (x - gap * 0.7 - width, y + gap * 0.7),
        (x - width / 2.0, y - gap - height),
        (x - width / 2.0, y + gap),
    ];
    let area = |(left, top): (f64, f64)| Area { left, top, right: left + width, bottom: top + height };
    corners.into_iter().map(area).find(|area| area.is_in_field() && !taken.iter().any(|other| other.overlaps(area)))
}

/// What shapes, colours and lines mean.
fn legend(study: &Study<'_>, points: &[Point<'_>]) -> String {
    let (mut x, y) = (LEFT, 22.0);
    let mut text = String::new();
    let mut entry = |drawing: String, words: &str| {
        let label =
            format!("<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n", x + 16.0, y + 4.5, escaped(words));
        text.push_str(&format!("<g transform=\"translate({x:.1} {y:.1})\">{drawing}</g>{label}"));
        x += 16.0 + width_of(words) + 22.0;
    };
    for (index, engine) in study.inputs().engines.iter().enumerate() {
        if points.iter().any(|point| point.row.engine == engine.name) {
            let style = format!("fill=\"{}\"", COLOURS[index % COLOURS.len()]);
            entry(shape(index, (0.0, 0.0), &style), &engine.display_name);
        }
    }
    let hollow = "fill=\"#ffffff\" stroke=\"#8c8c8c\" stroke-width=\"2\"";
    if points.iter().any(|point| is_out(point.assessment)) {
        entry(shape(0, (0.0, 0.0), hollow), "hollow: not shown to meet the objectives");
    }
    let is_ringed = |assessment| points.iter().any(|point| point.assessment == assessment);
    let ring = format!("<circle class=\"ring\" r=\"{RADIUS}\"/>");
    if is_ringed(Assessment::Chosen) {
        entry(ring.clone(), "chosen");
    }
    if is_ringed(Assessment::Nearest) {
        entry(ring, "nearest to the objectives");
    }
    entry("<path class=\"front\" d=\"M-8 5H2V-5H9\"/>".to_owned(), "front");
    entry("<line class=\"bar\" y1=\"-7\" y2=\"7\"/>".to_owned(), "95 % bounds");
    text
}

/// The plot in words.
fn description(study: &Study<'_>, points: &[Point<'_>]) -> String {
    let told = points
        .iter()
        .filter(|point| matches!(point.assessment, Assessment::Chosen | Assessment::Front | Assessment::Nearest));
    let one = |point: &Point<'_>| {
        let latency = study.latency(point.row).map_or(0, |latency| latency.microseconds);
        format!(
            "{}: {}, {:.2} {} a second, {}.",
            point.assessment.as_str(),
            study.place(point.row),
            point.row.per_kilosecond as f64 / 1e3,
            study.unit(point.row.purpose),
            crate::study::time(latency)
        )
    };
    let points_told: Vec<String> = told.map(one).collect();
    format!("{} points. {} The table below has all of them.", points.len(), points_told.join(" "))
}
