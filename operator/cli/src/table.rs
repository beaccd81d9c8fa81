//! Tables of text, as kubectl prints them: columns as wide as their widest cell.

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

/// Microseconds as people read them: three significant digits and a unit.
pub fn duration(microseconds: u64) -> String {
    let value = microseconds as f64;
    let (scaled, unit) = match microseconds {
        0..1_000 => return format!("{microseconds} µs"),
        1_000..1_000_000 => (value / 1e3, "ms"),
        _ => (value / 1e6, "s"),
    };
    let places = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
    format!("{scaled:.places$} {unit}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_in_characters() {
        let rows = vec![vec!["µµµµ".to_owned(), "1".to_owned()], vec!["b".to_owned(), "22".to_owned()]];
        assert_eq!(table(&["A", "LONG"], &rows), "A      LONG\nµµµµ   1\nb      22\n");
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let shown = [0, 999, 1_000, 12_345, 999_999, 1_234_567, 61_000_000].map(duration);
        assert_eq!(shown, ["0 µs", "999 µs", "1.00 ms", "12.3 ms", "1000 ms", "1.23 s", "61.0 s"]);
    }
}
