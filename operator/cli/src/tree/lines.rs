//! Lines of a width, with tones that a terminal shows as colours. Pure.

/// What a piece of text says beyond its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing more.
    Plain,
    /// A title, or the name of what is shown.
    Strong,
    /// It is as it should be.
    Good,
    /// It is under way, or waits.
    Waiting,
    /// It is not as it should be.
    Bad,
    /// Less important.
    Faint,
}

impl Tone {
    /// Its parameter of the sequence that selects a rendition (ECMA-48, section 8.3.117).
    const fn rendition(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Good => Some("32"),
            Self::Waiting => Some("33"),
            Self::Bad => Some("31"),
            Self::Faint => Some("2"),
        }
    }
}

/// Whether tones are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// As colours.
    Colours,
    /// Not at all.
    None,
}

/// A line, piece by piece.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(Vec<(String, Tone)>);

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// A line of one piece.
    pub fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self::new().and(text, tone)
    }

    /// The same with a further piece.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.0.push((text.into(), tone));
        self
    }

    /// Writes the line, cut to a width.
    pub fn write(&self, width: usize, ink: Ink) -> String {
        let mut left = width;
        let mut written = String::new();
        let length: usize = self.0.iter().map(|(text, _)| text.chars().count()).sum();
        let last_is_visible = length <= width;
        for (text, tone) in &self.0 {
            let room = if last_is_visible { left } else { left.saturating_sub(1) };
            let piece: String = text.chars().take(room).collect();
            left -= piece.chars().count();
            written.push_str(&painted(&piece, *tone, ink));
        }
        if !last_is_visible && width > 0 {
            written = written.trim_end().to_owned();
            written.push('…');
        }
        match ink {
            Ink::Colours => written,
            Ink::None => written.trim_end().to_owned(),
        }
    }
}

fn painted(text: &str, tone: Tone, ink: Ink) -> String {
    match (tone.rendition().filter(|_| !text.is_empty()), ink) {
        (Some(rendition), Ink::Colours) => format!("\u{1b}[{rendition}m{text}\u{1b}[0m"),
        (Some(_), Ink::None) | (None, _) => text.to_owned(),
    }
}

/// Breaks a text into lines of at most a width, at spaces where there are some.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            Some(_) | None => {}
        }
        while rest.chars().count() > width {
            let at = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            lines.push(rest[..at].to_owned());
            rest = &rest[at..];
        }
        lines.push(rest.to_owned());
    }
    lines
}

/// A text of at most a width; what is too long loses its middle, because names differ at their ends.
pub fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (begin, end) = (kept / 3, kept - kept / 3);
    let head: String = text.chars().take(begin).collect();
    let tail: String = text.chars().skip(length - end).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_line_is_cut_to_its_width_and_says_so() {
        let line = Line::of("stable ", Tone::Plain).and("80 %", Tone::Good);
        let written: Vec<String> = [20, 11, 9, 3].into_iter().map(|width| line.write(width, Ink::None)).collect();
        assert_eq!(written, ["stable 80 %", "stable 80 %", "stable 8…", "st…"]);
    }

    #[test]
    fn tones_are_colours_that_take_no_width() {
        let line = Line::of("stable ", Tone::Plain).and("80 %", Tone::Good);
        assert_eq!(line.write(9, Ink::Colours), "stable \u{1b}[32m8\u{1b}[0m…");
    }

    #[test]
    fn texts_break_at_spaces_and_words_that_are_too_long_within() {
        assert_eq!(wrapped("no harm is shown", 8), ["no harm", "is shown"]);
        assert_eq!(wrapped("a facts-agent-1", 6), ["a", "facts-", "agent-", "1"]);
        assert_eq!(wrapped("", 8), Vec::<String>::new());
    }

    #[test]
    fn a_long_name_keeps_its_begin_and_its_end() {
        assert_eq!(shortened("facts-agent-1f2e3d4c5b-x2k9p", 13), "fact…5b-x2k9p");
        assert_eq!(shortened("short", 13), "short");
    }
}
