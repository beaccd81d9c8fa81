//! The page around plot and sections. Pure.

use kube::ResourceExt;

use super::{Material, html::escaped, plot::plot, rollout, sections, what_if};
use crate::study::Study;

const STYLE: &str = include_str!("style.css");

/// The whole document.
pub(super) fn page(material: &Material<'_>) -> String {
    let name = material.object.name_any();
    let namespace = material.object.namespace().unwrap_or_default();
    let body = match Study::of(material.profile) {
        Some(study) => sections(material, &study),
        None => format!("<p>The campaign has not begun.</p>\n{}", rollout::section(material)),
    };
    let created = material.profile.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
    let created = created.map_or(String::new(), |time| format!(", started {}", escaped(&time)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{0}: profile</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>{0}</h1>\n<p>Profile <code>{1}</code> in namespace {2}{created}</p>\n</header>\n<main>\n\
         {body}</main>\n</body>\n</html>\n",
        escaped(&name),
        escaped(&material.profile.name_any()),
        escaped(&namespace),
    )
}

fn sections(material: &Material<'_>, study: &Study<'_>) -> String {
    let figure = plot(study).map_or(String::new(), |svg| {
        format!("<section>\n<h2>Throughput and latency</h2>\n<figure>\n{svg}</figure>\n</section>\n")
    });
    [
        sections::decision(study),
        sections::objectives(material),
        rollout::section(material),
        figure,
        sections::measurements(study),
        sections::not_measured(study),
        what_if::section(study),
        sections::quality_gate(material),
        sections::identity(material, study),
    ]
    .concat()
}
