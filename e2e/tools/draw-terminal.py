#!/usr/bin/env python3
"""Draws what a terminal shows at the end of a capture as an SVG image, for the docs.

    script --quiet --flush --command 'kubectl slipway get NAME -w' capture
    draw-terminal.py capture docs/terminal/get.svg

The terminal has as many columns as the capture was made with, 100 unless COLUMNS says so, and as many lines as it
needs. Needs pyte (PyPI).
"""
import html
import os
import re
import sys

import pyte

COLUMNS = int(os.environ.get("COLUMNS", "100"))
# More than any tree has; what stays empty is cut off.
LINES = int(os.environ.get("LINES", "60"))
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
INK, PAPER = "#e6e6e6", "#1b1f24"
COLORS = {
    "black": "#6e7681", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "yellow": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#e6e6e6",
}


def screen_of(capture: bytes) -> pyte.Screen:
    """The screen after the capture, without the notes of script(1)."""
    text = capture.decode(errors="replace")
    text = re.sub(r"^Script started on [^\n]*\n|\nScript done on [^\n]*\n$", "", text)
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.Stream(screen).feed(text)
    return screen


def style(char) -> str:
    """The look of a character, as SVG has it."""
    color = COLORS.get(char.fg.removeprefix("bright"), INK)
    parts = [f'fill="{color}"'] if color != INK else []
    if char.bold:
        parts.append('font-weight="bold"')
    return " ".join(parts)


def runs(line) -> list[tuple[int, str, str]]:
    """Characters of one look that follow each other: the first one's column, the look, the text."""
    found: list[tuple[int, str, str]] = []
    for column in range(COLUMNS):
        look, data = style(line[column]), line[column].data or " "
        if found and found[-1][1] == look:
            first, _, text = found[-1]
            found[-1] = (first, look, text + data)
        else:
            found.append((column, look, data))
    return found


def words(line) -> list[tuple[int, str, str]]:
    """The same without wide gaps, so that columns stand one below the other in any font."""
    found = []
    for first, look, text in runs(line):
        for word in re.finditer(r"\S+(?: \S+)*", text):
            found.append((first + word.start(), look, word.group()))
    return found


def draw(screen: pyte.Screen) -> str:
    """The SVG document."""
    shown = [number for number, text in enumerate(screen.display) if text.strip()]
    last = max(shown, default=0)
    width, height = round(COLUMNS * WIDTH + 2 * MARGIN), (last + 1) * HEIGHT + 2 * MARGIN
    rows = []
    for number in range(last + 1):
        y = MARGIN + (number + 1) * HEIGHT - 5
        for column, look, text in words(screen.buffer[number]):
            place = f'x="{MARGIN + column * WIDTH:.1f}" y="{y}" textLength="{len(text) * WIDTH:.1f}"'
            rows.append(f'<text {place} {look}>{html.escape(text)}</text>'.replace(" >", ">"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" fill="{INK}">\n'
        + "\n".join(rows)
        + "\n</g>\n</svg>\n"
    )


def main() -> None:
    """Reads the capture, writes the image."""
    capture, image = sys.argv[1:]
    with open(capture, "rb") as file:
        screen = screen_of(file.read())
    with open(image, "w", encoding="utf-8") as file:
        file.write(draw(screen))


if __name__ == "__main__":
    main()
