//! The sections below the plot. Pure.

use slipway_crds::v1alpha1::{
    agent_deployment::{Arrival, ResolvedImage, SyntheticRuns},
    profile::{HourlyPrice, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict},
};

use super::{
    Material,
    html::{Cell, Line, definitions, escaped, table},
};
use crate::{
    overview::quality,
    study::{Assessment, Extras, Study, rate, time, verdict},
    table::{api_name, duration},
};

/// What was decided, and why.
pub(super) fn decision(study: &Study<'_>) -> String {
    let status = study.status();
    if let Some(choice) = &status.choice {
        let place = format!("{}/{} at {} in flight", study.engine(&choice.engine), choice.configuration, choice.level);
        return format!(
            "<section class=\"decision\">\n<p class=\"answer\">{} serves.</p>\n<p>{}</p>\n</section>\n",
            escaped(&place),
            escaped(&choice.why)
        );
    }
    if let Some(infeasible) = &status.infeasible {
        return format!(
            "<section class=\"decision none\">\n<p class=\"answer\">Nothing that was measured meets the objectives: {} \
             binds.</p>\n<p>{}</p>\n</section>\n",
            escaped(&infeasible.binding_objective),
            escaped(&infeasible.what_it_would_take)
        );
    }
    let phase = status.phase.map_or("not begun".to_owned(), |phase| api_name(&phase));
    format!(
        "<section class=\"decision none\">\n<p class=\"answer\">Nothing is decided: {}.</p>\n<p>{}</p>\n</section>\n",
        escaped(&phase),
        escaped(&status.message)
    )
}

/// Every objective: its target, what was predicted, what the serving pods observed.
pub(super) fn objectives(material: &Material<'_>) -> String {
    let known = material.object.status.as_ref().map_or(&[][..], |status| &status.slo);
    if known.is_empty() {
        return String::new();
    }
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    let has_budgets = known.iter().any(|entry| entry.budget.is_some());
    let lines: Vec<Line> = known
        .iter()
        .map(|entry| {
            let met = match entry.met {
                Some(true) => Cell::Mark("good", "met".to_owned()),
                Some(false) => Cell::Mark("bad", "missed".to_owned()),
                None => Cell::Text("–".to_owned()),
            };
            let mut cells = vec![
                Cell::Text(entry.name.clone()),
                Cell::Text(entry.objective.clone()),
                Cell::Number(entry.target.clone()),
                Cell::Number(or_dash(&entry.predicted)),
                Cell::Number(or_dash(&entry.observed)),
                Cell::Number(or_dash(&entry.window)),
                met,
            ];
            if has_budgets {
                let budget = entry.budget.as_ref().map(|budget| format!("{} over {}", budget.left, budget.window));
                cells.push(Cell::Number(or_dash(&budget)));
            }
            Line { class: "", cells }
        })
        .collect();
    let mut header = vec!["Objective", "Bounds", "Target", "Predicted", "Observed", "Over", "Met"];
    if has_budgets {
        header.push("Error budget left");
    }
    let table = table("Targets, predictions of the confirm run, and values observed while serving", &header, &lines);
    format!("<section>\n<h2>Predicted and observed</h2>\n{table}</section>\n")
}

/// All measurements.
pub(super) fn measurements(study: &Study<'_>) -> String {
    if study.status().measurements.is_empty() {
        return String::new();
    }
    let metric = study.judged().map_or("Latency".to_owned(), |o| format!("{} {}", o.metric.as_str(), o.percentile));
    let explore = lines(study, MeasurementPurpose::Explore);
    let rate_header = format!("{}/s", study.unit(MeasurementPurpose::Explore));
    let mut header = vec!["#", "Engine", "Configuration", "In flight", &rate_header, &metric, "95 % bounds"];
    header.extend(Extras::of(study).titles());
    header.extend(["Count", "Failed", "Objectives", "Remark"]);
    let explored = table("Each configuration at each level: a fixed number in flight", &header, &explore);
    let again = lines(study, MeasurementPurpose::Repeat);
    let repeated = if again.is_empty() {
        String::new()
    } else {
        let caption = "Close points, measured again in turn: of each, the measurement in the middle counts";
        table(caption, &header, &again)
    };
    let confirm = confirm_lines(study);
    let confirmed = if confirm.is_empty() {
        String::new()
    } else {
        let mut header = vec!["#", "Engine", "Configuration", "Maximum in flight", "runs/s", "Latencies (95 % bounds)"];
        header.extend(Extras::of(study).titles());
        header.extend(["Count", "Failed", "Objectives", "Remark"]);
        let caption =
            "Confirm runs: whole runs of the agent that arrive at random at the target load, with replayed tools";
        table(caption, &header, &confirm)
    };
    format!("<section>\n<h2>Measurements</h2>\n{explored}{repeated}{confirmed}</section>\n")
}

fn lines(study: &Study<'_>, purpose: MeasurementPurpose) -> Vec<Line> {
    let rows = study.rows().filter(|(_, row)| row.purpose == purpose);
    rows.map(|(position, row)| {
        let latency = study.latency(row);
        let upper = |upper: Option<i64>| upper.map_or("?".to_owned(), time);
        let mut cells = head(study, position, row);
        cells.extend([
            Cell::Number(latency.map_or("–".to_owned(), |l| time(l.microseconds))),
            Cell::Number(latency.map_or("–".to_owned(), |l| format!("{} – {}", time(l.lower), upper(l.upper)))),
        ]);
        cells.extend(tail(study, position, row));
        Line { class: class(study.assessment(position, row)), cells }
    })
    .collect()
}

fn confirm_lines(study: &Study<'_>) -> Vec<Line> {
    let rows = study.rows().filter(|(_, row)| row.purpose == MeasurementPurpose::Confirm);
    rows.map(|(position, row)| {
        let upper = |upper: Option<i64>| upper.map_or("?".to_owned(), time);
        let is_asked = |l: &&MeasuredLatency| {
            study.inputs().objectives.iter().any(|o| (o.metric, o.percentile) == (l.metric, l.percentile))
        };
        let latencies = row.latencies.iter().filter(is_asked).map(|l| {
            let (metric, value) = (l.metric.as_str(), time(l.microseconds));
            format!("{metric} {} {value} ({} – {})", l.percentile, time(l.lower), upper(l.upper))
        });
        let mut cells = head(study, position, row);
        cells.push(Cell::Text(latencies.collect::<Vec<_>>().join("; ")));
        cells.extend(tail(study, position, row));
        Line { class: class(study.assessment(position, row)), cells }
    })
    .collect()
}

fn head(study: &Study<'_>, position: usize, row: &Measurement) -> Vec<Cell> {
    vec![
        Cell::Number((position + 1).to_string()),
        Cell::Text(study.engine(&row.engine).to_owned()),
        Cell::Text(row.configuration.clone()),
        Cell::Number(row.level.to_string()),
        Cell::Number(rate(row.per_kilosecond)),
    ]
}

fn tail(study: &Study<'_>, position: usize, row: &Measurement) -> Vec<Cell> {
    let mark = match row.verdict {
        MeasurementVerdict::Feasible => "good",
        MeasurementVerdict::Infeasible | MeasurementVerdict::Failed => "bad",
        MeasurementVerdict::Unbounded => "open",
    };
    let extras = Extras::of(study).cells(row, "–").map(Cell::Number);
    let rest = [
        Cell::Number(row.count.to_string()),
        Cell::Number(row.errors.to_string()),
        Cell::Mark(mark, verdict(row.verdict).to_owned()),
        Cell::Text(study.remark(position, row)),
    ];
    extras.chain(rest).collect()
}

const fn class(assessment: Assessment) -> &'static str {
    match assessment {
        Assessment::Chosen | Assessment::Prediction => "chosen",
        Assessment::Misses | Assessment::Undecided | Assessment::Failed => "out",
        Assessment::Nearest | Assessment::Front | Assessment::Beaten(_) | Assessment::Meets | Assessment::Compared => {
            ""
        }
    }
}

/// What was left out, and why.
pub(super) fn not_measured(study: &Study<'_>) -> String {
    let lines: Vec<Line> = study
        .status()
        .not_measured
        .iter()
        .map(|skipped| {
            let configuration = skipped.configuration.clone().unwrap_or_else(|| "all".to_owned());
            let engine = study.engine(&skipped.engine).to_owned();
            Line {
                class: "",
                cells: vec![Cell::Text(engine), Cell::Text(configuration), Cell::Text(skipped.reason.clone())],
            }
        })
        .collect();
    if lines.is_empty() {
        return "<section>\n<h2>Not measured</h2>\n<p>Nothing was left out: every configuration has a measurement at every \
                level.</p>\n</section>\n"
            .to_owned();
    }
    let table = table("Left out", &["Engine", "Configuration", "Why"], &lines);
    format!("<section>\n<h2>Not measured</h2>\n{table}</section>\n")
}

/// How well the engines answer.
pub(super) fn quality_gate(material: &Material<'_>) -> String {
    let engines = material.object.status.as_ref().map_or(&[][..], |status| &status.engines);
    let lines: Vec<Line> = engines
        .iter()
        .filter_map(|engine| {
            let measured = engine.quality.as_ref()?;
            let mark = if measured.accepted { ("good", "accepted") } else { ("bad", "refused") };
            let cells = vec![
                Cell::Text(engine.display_name.clone()),
                Cell::Text(quality(measured)),
                Cell::Mark(mark.0, mark.1.to_owned()),
            ];
            Some(Line { class: "", cells })
        })
        .collect();
    if lines.is_empty() {
        return "<section>\n<h2>Quality gate</h2>\n<p>spec.slo.quality sets no limit: engines were not judged.</p>\n</section>\n"
            .to_owned();
    }
    let limit = material.object.spec.slo.quality.as_ref();
    let limit = limit.map_or(String::new(), |quality| format!(" (at most {} below the reference)", quality.max_drop));
    let caption = format!("Answers to held-out questions, judged before anything was measured{limit}");
    let table = table(&caption, &["Engine", "Score", "Gate"], &lines);
    format!("<section>\n<h2>Quality gate</h2>\n{table}</section>\n")
}

/// `$2.5 an hour for one NVIDIA-L4 on a spot node`.
fn price_words(HourlyPrice { gpu_product, spot, per_hour }: &HourlyPrice) -> String {
    let what = gpu_product.as_ref().map_or("a pod without a GPU".to_owned(), |product| format!("one {product}"));
    format!("${per_hour} an hour for {what}{}", if *spot { " on a spot node" } else { "" })
}

/// Whether an image of the status is the one that is called so, by its reference or by its digest.
fn is_called(image: &ResolvedImage, name: &str) -> bool {
    image.reference == name || image.pinned.as_deref() == Some(name)
}

/// By what everything above can be told from another campaign.
pub(super) fn identity(material: &Material<'_>, study: &Study<'_>) -> String {
    let inputs = study.inputs();
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let mut pairs = vec![
        pair("Profile", material.profile.metadata.name.clone().unwrap_or_default()),
        pair("Inputs", material.profile.spec.input_hash.clone()),
    ];
    if let Some(model) = material.object.status.as_ref().and_then(|status| status.model.as_ref()) {
        pairs.push(pair("Model", format!("{} {}", model.pinned_uri, model.source_digest)));
    }
    for engine in &inputs.engines {
        let asked = material.profile.status.iter().flat_map(|status| &status.asked);
        let asked = asked.filter(|asked| asked.engine == engine.name).find_map(|asked| asked.manifest_digest.as_ref());
        pairs.push(pair(
            &format!("Engine {}", engine.display_name),
            format!("{} {}", engine.name, asked.unwrap_or(&engine.manifest_digest)),
        ));
        let built = material.engines.iter().find(|built| built.metadata.name.as_ref() == Some(&engine.name));
        let builder = built.map(|built| built.spec.build.builder_image_digest.clone());
        pairs.extend(builder.map(|digest| pair(&format!("Builder of {}", engine.display_name), digest)));
    }
    pairs.push(pair("Triton", inputs.placement.triton_image.clone()));
    let images = material.object.status.iter().flat_map(|status| &status.images);
    pairs.extend(
        images
            .filter(|image| is_called(image, &inputs.placement.triton_image))
            .map(|i| pair("Triton's content", i.digest.clone())),
    );
    pairs.extend(
        inputs.prompts.iter().map(|prompts| pair(&format!("Workload {}", prompts.name), prompts.data.digest.clone())),
    );
    pairs.extend(inputs.agent_trace.iter().map(|trace| pair("Recorded runs", trace.digest.clone())));
    pairs.extend(inputs.recorded_lengths.iter().map(|lengths| pair("Recorded lengths", lengths.digest.clone())));
    pairs.extend(inputs.synthetic.iter().map(|runs| pair("Runs made up", made_up(runs))));
    pairs.push(pair("Load", api_name(&inputs.driver)));
    pairs.push(pair("Optimized for", api_name(&inputs.optimize_for)));
    let prices = study.status().price.iter().chain(&study.status().prices);
    pairs.extend(prices.map(|price| pair("Price", price_words(price))));
    let used = duration(u64::try_from(study.status().gpu_milliseconds).unwrap_or(0).saturating_mul(1_000));
    let (hours, most) = (inputs.budget.gpu_hours.to_string(), inputs.budget.measurements);
    pairs.push(pair("Budget", format!("{} rows and {used} used, of {most} rows and {hours} h", study.status().rows)));
    pairs.push(pair("Written by", format!("kubectl-slipway {}", env!("CARGO_PKG_VERSION"))));
    format!(
        "<section>\n<h2>Identity</h2>\n<p>Raw records of each row lie in the store under the digest that \
         <code>kubectl get profile -o yaml</code> shows.</p>\n{}</section>\n",
        definitions(&pairs)
    )
}

/// Runs that were made up, in words.
fn made_up(runs: &SyntheticRuns) -> String {
    let SyntheticRuns {
        input_tokens,
        input_tokens_p95,
        output_tokens,
        output_tokens_p95,
        tool_calls,
        tool_result_tokens,
        tool_latency,
        arrival,
    } = runs;
    let up_to = |p95: &Option<i32>| p95.map(|p95| format!(" (p95 {p95})")).unwrap_or_default();
    format!(
        "{input_tokens}{} tokens in, {output_tokens}{} out of each request, {tool_calls} calls of {tool_result_tokens} \
         tokens in {tool_latency}{}",
        up_to(input_tokens_p95),
        up_to(output_tokens_p95),
        arriving(arrival)
    )
}

/// How runs arrived while the choice was confirmed; nothing where each came by itself.
fn arriving(Arrival { runs_per_second, burst }: &Arrival) -> String {
    let rate = runs_per_second.iter().map(|rate| format!(", {rate} runs/s"));
    rate.chain((*burst > 1).then(|| format!(", {burst} at once"))).collect()
}
