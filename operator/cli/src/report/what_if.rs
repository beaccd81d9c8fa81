//! What other objectives, prices and traffic would choose, as the rows of the campaign answer it. Pure.

use slipway_crds::{
    v1alpha1::{
        agent_deployment::{OptimizeFor, ThroughputUnit, WrittenObjective},
        profile::{HourlyPrice, ProfiledEngine},
    },
    values::{PositiveDecimal, readable_duration},
};
use slipway_selection::{
    cost::dollars,
    what_if::{Answer, AskedObjective, AskedPrice, Choice, Confirmation, Interval, Question, Which, answer},
};

use super::html::{Cell, Line, escaped, table};
use crate::{
    study::{Study, rate},
    table::api_name,
};

/// Shares of an objective that are asked about, in percent.
const LIMITS: [u64; 2] = [75, 150];
/// Shares of a GPU's price that are asked about, in percent.
const PRICES: [u64; 2] = [50, 200];
/// Multiples of the traffic that are asked about.
const MULTIPLES: [i64; 3] = [1, 2, 5];

/// Other questions with their answers; nothing before there is one.
pub(super) fn section(study: &Study<'_>) -> String {
    let status = study.status();
    if status.choice.is_none() && status.infeasible.is_none() {
        return String::new();
    }
    let lines: Vec<Line> = questions(study).iter().filter_map(|asked| line(study, asked)).collect();
    if lines.is_empty() {
        return String::new();
    }
    let unit = study.inputs().driver.unit().words();
    let (throughput, cost) = (format!("{unit}/s (95 % bounds)"), format!("$ for 1,000 {unit} (95 % bounds)"));
    let header = ["Question", "Would serve", &throughput, &cost, "Replicas (95 % bounds)", "Remark"];
    let table = table("Answered from the measurements above, by the rules that chose", &header, &lines);
    let hint = escaped("slipway-analysis what-if --profile FILE answers others.");
    format!("<section>\n<h2>What if</h2>\n<p>Nothing was measured for these answers. {hint}</p>\n{table}</section>\n")
}

/// A question and its words.
struct Asked {
    words: String,
    question: Question,
}

fn questions(study: &Study<'_>) -> Vec<Asked> {
    let inputs = study.inputs();
    let ranked = |optimize_for: OptimizeFor| Asked {
        words: format!("optimized for {}", api_name(&optimize_for)),
        question: Question { optimize_for: Some(optimize_for), ..Question::default() },
    };
    let status = study.status();
    let is_priced = |engine: &ProfiledEngine| {
        let found = inputs.priced_by((status.price.as_ref(), &status.prices), &engine.name);
        inputs.price_of(&engine.name).or(found).is_some()
    };
    let has_price = inputs.engines.iter().all(is_priced);
    let others = [OptimizeFor::Throughput, OptimizeFor::Latency, OptimizeFor::Cost]
        .into_iter()
        .filter(|other| *other != inputs.optimize_for && (has_price || *other != OptimizeFor::Cost));
    let limits = inputs.objectives.iter().flat_map(|objective| LIMITS.map(|percent| limited(objective, percent)));
    others.map(ranked).chain(limits.flatten()).chain(prices(study)).chain(traffic(study)).collect()
}

/// Each price that is known, halved and doubled: of several GPU models another may then be chosen.
fn prices(study: &Study<'_>) -> Vec<Asked> {
    let (inputs, status) = (study.inputs(), study.status());
    let mut known: Vec<&HourlyPrice> = Vec::new();
    for engine in &inputs.engines {
        let found = inputs.priced_by((status.price.as_ref(), &status.prices), &engine.name);
        known.extend(inputs.price_of(&engine.name).or(found).filter(|price| !known.contains(price)));
    }
    known.into_iter().flat_map(|price| PRICES.map(|percent| repriced(price, percent))).flatten().collect()
}

fn repriced(HourlyPrice { gpu_product, per_hour, .. }: &HourlyPrice, percent: u64) -> Option<Asked> {
    let ten_thousandths = u64::try_from(per_hour.millionths()).ok()?.saturating_mul(percent) / 10_000;
    let per_hour = PositiveDecimal::from_ten_thousandths(ten_thousandths)?;
    let price = AskedPrice { gpu_product: gpu_product.clone(), per_hour: per_hour.clone() };
    Some(Asked {
        words: format!("{} at $ {per_hour} an hour", gpu_product.as_deref().unwrap_or("a GPU")),
        question: Question { prices: vec![price], ..Question::default() },
    })
}

fn limited(WrittenObjective { name, max, .. }: &WrittenObjective, percent: u64) -> Option<Asked> {
    let microseconds = max.microseconds().saturating_mul(percent) / 100;
    let max = readable_duration(microseconds, 3).parse().ok()?;
    Some(Asked {
        words: format!("{name} at most {max}"),
        question: Question {
            objectives: vec![AskedObjective { which: Which::Named(name.clone()), max }],
            ..Question::default()
        },
    })
}

/// The traffic of the spec and multiples of it; where it has none, of what one replica of the choice serves.
fn traffic(study: &Study<'_>) -> Vec<Asked> {
    let inputs = study.inputs();
    let served = || {
        let predicted = study.at(study.status().choice.as_ref()?.predicted_by)?.1;
        let ten_thousandths = u64::try_from(predicted.per_kilosecond).ok()?.saturating_mul(10);
        let unit = if study.unit(predicted.purpose) == ThroughputUnit::Runs.words() {
            ThroughputUnit::Runs
        } else {
            ThroughputUnit::Requests
        };
        Some((PositiveDecimal::from_ten_thousandths(ten_thousandths)?, unit))
    };
    let asked = inputs.throughput.as_ref().map(|throughput| (throughput.min.clone(), throughput.unit)).or_else(served);
    let Some((per_second, unit)) = asked else { return Vec::new() };
    let times = |multiple: i64| {
        let ten_thousandths = u64::try_from(per_second.millionths().saturating_mul(multiple) / 100).ok()?;
        let traffic = PositiveDecimal::from_ten_thousandths(ten_thousandths)?;
        Some(Asked {
            words: format!("traffic of {traffic} {}/s", unit.words()),
            question: Question { traffic: Some(traffic), unit: Some(unit), ..Question::default() },
        })
    };
    MULTIPLES.into_iter().filter_map(times).collect()
}

fn line(study: &Study<'_>, Asked { words, question }: &Asked) -> Option<Line> {
    let answer = answer(study.inputs(), study.status(), question).ok()?;
    let cells = match &answer.choice {
        Some(choice) => chosen(study, &answer, choice),
        None => {
            let none = || Cell::Number("–".to_owned());
            let takes = answer.infeasible.as_ref().map_or(String::new(), |found| found.what_it_would_take.clone());
            vec![Cell::Mark("bad", "nothing".to_owned()), none(), none(), none(), Cell::Text(takes)]
        }
    };
    let class = if answer.choice.as_ref().is_some_and(|choice| choice.is_unchanged) { "chosen" } else { "" };
    Some(Line { class, cells: std::iter::once(Cell::Text(words.clone())).chain(cells).collect() })
}

fn chosen(study: &Study<'_>, answer: &Answer, choice: &Choice) -> Vec<Cell> {
    let or_dash = |text: Option<String>| Cell::Number(text.unwrap_or_else(|| "–".to_owned()));
    let place = format!("{}/{} at {}", study.engine(&choice.engine), choice.configuration, choice.level);
    vec![
        Cell::Text(place),
        Cell::Number(within(choice.per_kilosecond, rate)),
        or_dash(choice.cost.map(|cost| within(cost.microdollars_per_thousand, dollars))),
        or_dash(choice.fleet.as_ref().map(|fleet| within(fleet.replicas, |count| count.to_string()))),
        Cell::Text(remark(answer, choice)),
    ]
}

/// `9.00 (8.71 – 9.30)`.
fn within(Interval { value, lower, upper }: Interval, shown: impl Fn(i64) -> String) -> String {
    format!("{} ({} – {})", shown(value), shown(lower), shown(upper))
}

fn remark(answer: &Answer, choice: &Choice) -> String {
    let own = if choice.is_unchanged { "the choice stays" } else { "another choice" };
    let confirmation = match choice.confirmation {
        Confirmation::Confirmed | Confirmation::NotPossible => None,
        Confirmation::Missing => Some("a campaign would confirm it first".to_owned()),
    };
    let fleet = choice.fleet.as_ref();
    let confirmed = fleet.and_then(|fleet| fleet.replicas_as_confirmed);
    let confirmed = confirmed.map(|count| format!("{count} replicas with the load of the confirm run"));
    let hourly = fleet.and_then(|fleet| fleet.microdollars_per_hour);
    let hourly = hourly.map(|cost| format!("{} an hour", within(cost, dollars)));
    let open = Some(answer.open.len()).filter(|open| *open > 0).map(|open| format!("{open} undecided points"));
    [Some(own.to_owned()), confirmation, confirmed, hourly, open].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
