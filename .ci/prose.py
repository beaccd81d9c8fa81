#!/usr/bin/env python3
"""Checks the prose that users read: no sentence above 30 words, no prose line above 120 columns.

Read are Markdown files, the comments of the charts' values, the charts' notes, and the doc comments and validation
messages of the CRDs, from which `kubectl explain` and docs/reference are generated. Code blocks are skipped. A table row
may be longer than 120 columns, and so may a line whose last word is a link. Uses the standard library only.
"""

import re
import subprocess
import sys
from pathlib import Path

MAX_WORDS = 30
MAX_COLUMNS = 120
ROOT = Path(__file__).resolve().parent.parent
# Written by programs (docs/bench, docs/reference), by the licensor, or for developers alone.
SKIPPED = re.compile(r"^docs/reference/|^docs/bench/(judge|search)\.md$|/LICENSE-DATA\.md$|^ARCHITECTURE\.md$")

CODE_SPAN = re.compile(r"(`+).+?\1")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
BARE_URL = re.compile(r"<?https?://[^\s>]+>?")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`$])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|approx|etc)\.", re.IGNORECASE)
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
TABLE_RULE = re.compile(r"^\s*\|[\s:|-]+\|\s*$")
MESSAGE = re.compile(r'\.message\(\s*r?"((?:[^"\\]|\\.)*)"', re.DOTALL)


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


def read_messages(text):
    """Reads the messages of validation rules."""
    for match in MESSAGE.finditer(text):
        message = re.sub(r"\\\n\s*", "", match.group(1)).replace('\\"', '"')
        yield text.count("\n", 0, match.start()) + 1, message


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


def read(name):
    """Returns the paragraphs and long lines of one file, by its kind."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".md"):
        return read_markdown(text)
    if name.endswith(".rs"):
        paragraphs, long_lines = read_comments(text, "///")
        return paragraphs + list(read_messages(text)), long_lines
    if name.endswith(".yaml"):
        return read_comments(text, "#")
    return read_markdown(text)


def main():
    """Checks the files named on the command line, by default all that users read."""
    patterns = ["*.md", "charts/*/values.yaml", "charts/*/templates/NOTES.txt", "crds/src/v1alpha1", "crds/src/values.rs"]
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    names = sys.argv[1:] or [name for name in listed.stdout.splitlines() if not SKIPPED.search(name)]
    problems = [problem for name in names for problem in check(name, *read(name))]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} places: shorten sentences and wrap lines as .ci/prose.py says")


if __name__ == "__main__":
    main()
