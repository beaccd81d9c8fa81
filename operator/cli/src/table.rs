//! Tables of text, as kubectl prints them: columns as wide as their widest cell.

use serde::Serialize;
use serde_json::Value;
use slipway_crds::values::readable_duration;

/// Lays out rows below a header. Rows shorter than the header end early.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([title.chars().count()]).max().unwrap_or_default()
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("   ").trim_end())
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(header.to_vec())).chain(body).collect()
}

/// Moves every line to the right.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}

/// Microseconds as specs and statuses write them, with three significant digits: `74us`, `2.65ms`, `147ms`, `1.2s`.
pub fn duration(microseconds: u64) -> String {
    readable_duration(microseconds, 3)
}

/// The name of the API for a value of one of its enums.
pub fn api_name<T: Serialize>(value: &T) -> String {
    let name = serde_json::to_value(value).ok();
    name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A number of things: `1 run`, `2 runs`.
pub fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_crds::v1alpha1::agent_deployment::Stage;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_in_characters() {
        let rows = vec![vec!["µµµµ".to_owned(), "1".to_owned()], vec!["b".to_owned(), "22".to_owned()]];
        assert_eq!(table(&["A", "LONG"], &rows), "A      LONG\nµµµµ   1\nb      22\n");
    }

    #[test]
    fn durations_have_three_digits_and_a_unit_and_are_written_as_in_a_spec() {
        let shown = [0, 999, 1_000, 12_345, 548_499, 999_999, 1_234_567, 61_000_000].map(duration);
        assert_eq!(shown, ["0us", "999us", "1ms", "12.3ms", "548ms", "1s", "1.23s", "61s"]);
        assert_eq!(duration(u64::MAX), "18400000000000s");
    }

    #[test]
    fn a_value_of_the_api_has_its_name_there() {
        assert_eq!(api_name(&Stage::RollingOut), "RollingOut");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "run")), ["0 runs", "1 run", "2 runs"]);
    }
}
