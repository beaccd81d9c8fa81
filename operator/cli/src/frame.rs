//! Texts that are drawn over each other in a terminal. Pure.

/// A size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// Empties the screen, before the first text.
pub const CLEARED: &str = "\u{1b}[2J";

/// A text in place of the one before, as control functions (ECMA-48): home, each line with the rest of its row erased,
/// then the rest of the screen. What is too long for the screen is cut, and the last line says so.
pub fn drawn(text: &str, size: Size) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The last row is the cursor's.
    let room = size.rows.saturating_sub(1).max(1);
    let mut frame = "\u{1b}[H".to_owned();
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    lines.iter().take(shown).for_each(|line| frame.push_str(&format!("{line}\u{1b}[K\n")));
    if lines.len() > shown {
        let more = format!("... {} more lines", lines.len() - shown);
        frame.push_str(&format!("{}\u{1b}[K\n", more.chars().take(size.columns).collect::<String>()));
    }
    frame.push_str("\u{1b}[J");
    frame
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_text_replaces_the_one_before_line_by_line() {
        let size = Size { columns: 80, rows: 24 };
        assert_eq!(drawn("one\ntwo\n", size), "\u{1b}[Hone\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J");
    }

    #[test]
    fn a_text_that_is_longer_than_the_screen_says_how_much_is_left_out() {
        let size = Size { columns: 80, rows: 4 };
        let frame = drawn("one\ntwo\nthree\nfour\n", size);
        assert_eq!(frame, "\u{1b}[Hone\u{1b}[K\ntwo\u{1b}[K\n... 2 more lines\u{1b}[K\n\u{1b}[J");
    }
}
