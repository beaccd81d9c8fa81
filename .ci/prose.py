#!/usr/bin/env python3
"""Checks prose: no sentence above 30 words, no line above 120 columns, none of the phrases below.

Read are Markdown files, the comments of charts and of the manifests that users copy, and the charts' notes. Of Rust
sources it reads the comments, the messages of errors and validation rules and, outside tests, the texts that are
formatted: conditions, events, answers. Comments within code may have long sentences. Code blocks are skipped. A table
row may be longer than 120 columns, and so may a line whose last word is a link. `--wrap FILES` wraps the paragraphs
that hold a long line. Not read are texts without a placeholder, help in scripts and the Makefile, comments of scripts,
annotations of alerts, dashboards, and what programs write. Uses the standard library only.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

MAX_WORDS = 30
MAX_COLUMNS = 120
ROOT = Path(__file__).resolve().parent.parent
# Written by programs (docs/bench, docs/reference) or by the licensor.
SKIPPED = re.compile(r"^docs/reference/|^docs/bench/(judge|search)\.md$|/LICENSE-DATA\.md$")
# Phrases that are not idiomatic, each with what to write instead.
PHRASES = [
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in [
        (r"\bput(s|ting)? up with\b", "tolerate"),
        (r"\bin vain\b", "without effect, or failed"),
        (r"\banew\b", "again"),
        (r"\b(lower-case|small) letters\b", "lowercase letters"),
        (r"\b(comes?|came) about\b", "happen, or take place"),
        (r"\bstands? in the way\b", "block"),
        (r"\blets? through\b", "admit, or accept"),
        (r"\bmend(s|ed|ing)?\b", "fix"),
        (r"\b(take|takes|taken|took) away\b", "remove"),
        (r"\bwhoever\b", "anyone who"),
        (r"\bspeaks? of\b", "be about, or describe"),
        (r"\b(tells?|told) of\b", "report, or notify of"),
        (r"\b(came|comes?|becomes?|became) of\b", "outcome, or result"),
        (r"(?<!there )\b(is|are|was|were) none\b(?! of\b)", "say what it is: 'requires ...', 'does not ...'"),
        (r"(?<!there )\b(is|are|was|were) no (?!longer|more|less|later|better|worse|slower)\w", "is not a"),
    ]
]

CODE_SPAN = re.compile(r"(`+).+?\1")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
BARE_URL = re.compile(r"<?https?://[^\s>]+>?")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`$])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|approx|etc)\.", re.IGNORECASE)
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,2}\.)\s+")
TABLE_RULE = re.compile(r"^\s*\|[\s:|-]+\|\s*$")
TEXT = r'\s*r?"((?:[^"\\]|\\.)*)"'
MESSAGE = re.compile(r"(?:\.message\(|#\[error\()" + TEXT, re.DOTALL)
FORMATTED = re.compile(r"(?:\bformat!\(|\bwrite(?:ln)?!\(\s*\w+,)" + TEXT, re.DOTALL)
# Formatted texts that are no prose: HTML and Python.
FORMATTED_CODE = ("<", "import ")
TEST_SOURCE = re.compile(r"/tests?/|tests\.rs$|/examples/|^e2e/|^operator/evaluation/")
TEST_MODULE = "#[cfg(test)]\nmod tests {"
COMMENT = re.compile(r"^(\s*(?:///|//!|//|#)) (.*)$")


class Blocks:
    """Collects paragraphs with the line that each begins at."""

    def __init__(self):
        self.found = []
        self.lines = []
        self.start = 0

    def add(self, number, text):
        """Adds a line to the current paragraph."""
        if not self.lines:
            self.start = number
        self.lines.append(text.strip())

    def end(self):
        """Ends the current paragraph."""
        if self.lines:
            self.found.append((self.start, " ".join(self.lines)))
        self.lines = []

    def add_alone(self, number, text):
        """Adds a paragraph of one line."""
        self.end()
        self.found.append((number, text.strip()))


def feed_markdown(blocks, number, line, column_width):
    """Adds a line outside code blocks; returns whether the line is too long."""
    is_table = line.lstrip().startswith("|")
    if not line.strip() or TABLE_RULE.match(line):
        blocks.end()
    elif is_table:
        # A cell is a phrase or a short list: its items end at semicolons.
        for cell in re.split(r"(?<!\\)\|", CODE_SPAN.sub("Code", line.strip().strip("|"))):
            for phrase in cell.split(";"):
                blocks.add_alone(number, phrase)
    elif line.lstrip().startswith("#"):
        blocks.add_alone(number, line.lstrip("# "))
    else:
        if LIST_ITEM.match(line):
            blocks.end()
        blocks.add(number, LIST_ITEM.sub("", line.lstrip("> ") if line.lstrip().startswith(">") else line))
    last_word = line.split()[-1] if line.split() else ""
    ends_in_link = "](" in last_word or "://" in last_word
    return column_width > MAX_COLUMNS and not is_table and not ends_in_link


def read_markdown(text):
    """Returns the paragraphs, and the numbers of the lines that are too long."""
    blocks, long_lines, fence = Blocks(), [], None
    previous_blank, indented = True, False
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"^\s*(```+|~~~+)", line)
        if fence is not None or opened:
            blocks.end()
            if fence is None:
                fence = opened.group(1)
            elif opened and line.strip() == fence:
                fence = None
            continue
        # Four spaces after a blank line are a code block, unless they continue a list item.
        indented = line.startswith("    ") and (indented or previous_blank)
        previous_blank = not line.strip()
        if indented and not LIST_ITEM.match(line):
            blocks.end()
        elif feed_markdown(blocks, number, line, len(line)):
            long_lines.append(number)
    blocks.end()
    return blocks.found, long_lines


def read_comments(text, marker):
    """Reads comments of a file, as Markdown: lines that begin with the marker."""
    blocks, long_lines, in_code = Blocks(), [], False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped != marker and not stripped.startswith(marker + " "):
            blocks.end()
            in_code = False
            continue
        content = stripped[len(marker):]
        if content.strip().startswith("```"):
            in_code = not in_code
        elif in_code:
            continue
        elif feed_markdown(blocks, number, content, len(line)):
            long_lines.append(number)
    blocks.end()
    return blocks.found, long_lines


def read_messages(text, pattern):
    """Reads the texts of Rust sources after a pattern; a line's end in one ends a sentence."""
    for match in pattern.finditer(text):
        message = re.sub(r"\\\n\s*", "", match.group(1)).replace('\\"', '"')
        for line in message.split("\\n"):
            if not line.startswith(FORMATTED_CODE):
                yield text.count("\n", 0, match.start()) + 1, line


def sentences(paragraph):
    """Splits a paragraph into sentences; a code span and a link's address are one word and none."""
    plain = CODE_SPAN.sub("Code", paragraph)
    plain = LINK.sub(r"\1", plain)
    plain = BARE_URL.sub("address", plain)
    plain = ABBREVIATION.sub(r"\1", plain)
    return SENTENCE_END.split(plain)


def word_count(sentence):
    """Counts words: whatever holds a letter or a digit."""
    return sum(1 for word in sentence.split() if any(c.isalnum() for c in word))


def check(name, paragraphs, long_lines):
    """Yields what is wrong with one file."""
    for number in long_lines:
        yield f"{name}:{number}: prose above {MAX_COLUMNS} columns: wrap the line"
    for number, paragraph in paragraphs:
        for sentence in sentences(paragraph):
            if (words := word_count(sentence)) > MAX_WORDS:
                yield f"{name}:{number}: a sentence of {words} words (at most {MAX_WORDS}): {sentence[:70]}..."
        plain = CODE_SPAN.sub("Code", paragraph)
        for pattern, remedy in PHRASES:
            if found := pattern.search(plain):
                yield f"{name}:{number}: '{found.group()}': {remedy}"


def read(name):
    """Returns the paragraphs and long lines of one file, by its kind."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".rs"):
        outer, inner, plain = (read_comments(text, marker) for marker in ("///", "//!", "//"))
        messages = list(read_messages(text, MESSAGE))
        if not TEST_SOURCE.search(name):
            messages += read_messages(text.split(TEST_MODULE)[0], FORMATTED)
        return outer[0] + inner[0] + messages, outer[1] + inner[1] + plain[1]
    if name.endswith(".yaml"):
        return read_comments(text, "#")
    return read_markdown(text)


def split(line, is_markdown):
    """Splits a line into its marker and its text; None if it is code, a table, a heading or blank."""
    if not is_markdown:
        match = COMMENT.match(line)
        marker, text = match.groups() if match else ("", "")
    else:
        marker, text = (">", line[2:]) if line.startswith("> ") else ("", line)
    is_prose = text.strip() and not text.startswith("    ") and not text.lstrip().startswith(("```", "|", "#", "<"))
    return (marker, text) if is_prose else None


def wrap(lines, at, is_markdown):
    """Wraps the paragraph around a line, in place; list items and indents stay."""
    if (here := split(lines[at], is_markdown)) is None:
        return
    belongs = lambda k: 0 <= k < len(lines) and (s := split(lines[k], is_markdown)) is not None and s[0] == here[0]
    text = lambda k: split(lines[k], is_markdown)[1]
    first = last = at
    while not LIST_ITEM.match(text(first)) and belongs(first - 1):
        first -= 1
    while belongs(last + 1) and not LIST_ITEM.match(text(last + 1)):
        last += 1
    item = LIST_ITEM.match(text(first))
    indent = item.group() if item else text(first)[: len(text(first)) - len(text(first).lstrip())]
    words = " ".join([text(first)[len(indent):], *(text(k) for k in range(first + 1, last + 1))]).split()
    marker = here[0] + " " if here[0] else ""
    lines[first : last + 1] = textwrap.wrap(
        " ".join(words), MAX_COLUMNS, initial_indent=marker + indent, subsequent_indent=marker + " " * len(indent),
        break_long_words=False, break_on_hyphens=False,
    )


def wrap_file(name):
    """Wraps what is too long in a file."""
    path = ROOT / name
    while long_lines := read(name)[1]:
        lines = path.read_text(encoding="utf-8").split("\n")
        before = list(lines)
        for number in sorted(long_lines, reverse=True):
            if number <= len(lines) and len(lines[number - 1]) > MAX_COLUMNS:
                wrap(lines, number - 1, not name.endswith((".rs", ".yaml")))
        if lines == before:
            return
        path.write_text("\n".join(lines), encoding="utf-8")


def main():
    """Checks or wraps the files named on the command line, by default all of them."""
    patterns = ["*.md", "*.rs", "charts/slipway/*.yaml", "charts/*/values.yaml", "charts/*/templates/NOTES.txt"]
    patterns += ["docs/examples/*.yaml", "e2e/manifests/*.yaml"]
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [argument for argument in sys.argv[1:] if argument != "--wrap"]
    names = names or [name for name in listed.stdout.splitlines() if not SKIPPED.search(name)]
    if "--wrap" in sys.argv[1:]:
        for name in names:
            wrap_file(name)
        return
    problems = [problem for name in names for problem in check(name, *read(name))]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} places: shorten sentences and wrap lines as .ci/prose.py says")


if __name__ == "__main__":
    main()
