//! What a source names. A scanner, not a parser: comments, texts and test modules are blanked, imports are written out.

use std::ops::Range;

use super::Violation;

/// A Rust source.
pub struct Source {
    /// Path from the root of the workspace.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Whether the file holds tests alone.
    pub fn is_test(&self) -> bool {
        self.name.ends_with("/tests.rs") || self.name.contains("/tests/")
    }

    /// Whether a sentence of the module's documentation begins with "Pure". What is pure but for something is not.
    pub fn says_pure(&self) -> bool {
        let documentation = self.text.lines().map_while(|line| line.strip_prefix("//!")).collect::<Vec<_>>().join("");
        documentation.match_indices(" Pure").any(|(at, found)| {
            let before = &documentation[..at];
            let after = &documentation[at + found.len()..];
            let begins = before.is_empty() || before.ends_with(['.', ':', ')']);
            begins && !after.starts_with(is_word) && !after.starts_with(" but")
        })
    }

    /// Whether the code outside its tests names a crate.
    pub fn uses(&self, name: &str) -> bool {
        names(&without_test_modules(&blanked(&self.text)), name)
    }

    /// Whether the code names a crate, its tests included.
    pub fn mentions(&self, name: &str) -> bool {
        names(&blanked(&self.text), name)
    }

    /// What the code outside its tests imports.
    pub fn imports(&self) -> Vec<Import> {
        imports(&without_test_modules(&blanked(&self.text)))
    }

    /// Paths that the code outside its tests names beside its imports.
    pub fn paths(&self) -> Vec<String> {
        let mut code = without_test_modules(&blanked(&self.text));
        for Statement { range, .. } in statements(&code) {
            code.replace_range(range.clone(), &" ".repeat(range.len()));
        }
        let words = code.split(|c| !is_word(c) && c != ':');
        words.filter(|word| word.contains("::")).map(str::to_owned).collect()
    }

    /// The forbidden names in the source's code, in the order of their lines.
    pub fn naming(&self, forbidden: &[(&str, &str)], who: &str) -> Vec<Violation> {
        let code = without_test_modules(&blanked(&self.text));
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (which, (name, _)) in forbidden.iter().enumerate() {
            let direct = code.lines().enumerate().filter(|(_, line)| names(line, name)).map(|(index, _)| index + 1);
            let imported = imports(&code).into_iter().filter(|import| names(&import.path, name));
            let imported = imported.map(|import| import.line);
            let mut lines: Vec<usize> = direct.chain(imported).collect();
            lines.sort_unstable();
            lines.dedup();
            found.extend(lines.into_iter().map(|line| (line, which)));
        }
        found.sort_unstable();
        found
            .into_iter()
            .map(|(line, which)| {
                let (name, why) = forbidden[which];
                let rule = format!("{who} must not name `{name}`, which {why}");
                Violation { file: self.name.clone(), line, rule }
            })
            .collect()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a name stands in a text as a word of its own.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + name.len()..].chars().next();
        let goes_on_before = name.starts_with(is_word) && before.is_some_and(is_word);
        let goes_on_after = name.ends_with(is_word) && after.is_some_and(is_word);
        !goes_on_before && !goes_on_after
    })
}

/// The text with spaces in place of comments and of what stands in quotes; lines stay where they are.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = skip(rest, out.chars().next_back());
        let (taken, is_code) = if skipped == 0 { (c.len_utf8(), true) } else { (skipped, false) };
        let piece = &rest[..taken];
        if is_code {
            out.push_str(piece);
        } else {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[taken..];
    }
    out
}

/// Bytes of the comment, text or character at the start; 0 if code stands there.
fn skip(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    if rest.starts_with('r') && !before.is_some_and(is_word) {
        let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
        if rest[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            return rest[start..].find(&close).map_or(rest.len(), |end| start + end + close.len());
        }
    }
    if let Some(inner) = rest.strip_prefix('\'') {
        // A lifetime has no closing quote after its first character.
        let is_character = inner.starts_with('\\') || inner.chars().nth(1) == Some('\'');
        return if is_character { quoted(rest, '\'') } else { 0 };
    }
    0
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return index + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// The code without inline modules of tests; lines stay where they are.
fn without_test_modules(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = match item.find(['{', ';']) {
            Some(start) if item[start..].starts_with('{') => start + braces(&item[start..]),
            Some(semicolon) => semicolon + 1,
            None => item.len(),
        };
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out + rest
}

/// Bytes up to the brace that closes the first.
fn braces(text: &str) -> usize {
    let mut depth = 0;
    for (index, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    text.len()
}

/// A path that is imported, written out.
pub struct Import {
    /// The line on which its import begins.
    pub line: usize,
    /// The path, with `as` and another name where it is given one.
    pub path: String,
    /// Whether others find it here too.
    pub is_public: bool,
}

/// Where an import stands, from `use` to its semicolon.
struct Statement {
    range: Range<usize>,
    is_public: bool,
}

fn statements(code: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("use ") {
        let before = code[..start].trim_end_matches([' ', '\t']);
        let is_public = before.ends_with("pub") || before.ends_with(')');
        let is_statement = is_public || before.chars().next_back().is_none_or(|c| !is_word(c));
        let Some(length) = code[start..].find(';') else { continue };
        if is_statement {
            found.push(Statement { range: start..start + length, is_public });
        }
    }
    found
}

/// Every path that is imported.
fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for Statement { range, is_public } in statements(code) {
        let before = &code[..range.start];
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
        let mut paths = Vec::new();
        write_out(code[range.start + 4..range.end].trim(), "", &mut paths);
        found.extend(paths.into_iter().map(|path| Import { line, path, is_public }));
    }
    found
}

fn write_out(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        paths.push(format!("{prefix}{}", tree.trim()));
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = &tree[open + 1..open + braces(&tree[open..]) - 1];
    let mut depth = 0;
    let mut start = 0;
    for (index, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                write_out(inner[start..index].trim(), &prefix, paths);
                start = index + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        write_out(inner[start..].trim(), &prefix, paths);
    }
}
