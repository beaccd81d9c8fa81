"""Reads arguments with real argparse parsers, made of the tables in tests/data.

Reads one JSON object a line: {"tool", "version", "argv"}, and writes one a line: {"values": {...}} or {"error": "..."}.
`values` holds every option's value, defaults included, as the tool's own parser would hand it on. Arguments are without
the program. Options may be abbreviated as argparse allows it.
"""

import argparse
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).parent / "data"
TYPES = {"str": str, "int": int, "float": float, "enum": str}


class Parser(argparse.ArgumentParser):
    """A parser that raises what it would print."""

    def error(self, message):
        raise ValueError(message)


def make_parser(tool, table):
    parser = Parser(prog=tool, add_help=True)
    for name, option in table.items():
        names = [name, *option.get("aliases", [])]
        default = argparse.SUPPRESS if option.get("argparse_default") == "SUPPRESS" else option.get("default")
        if option["type"] == "flag":
            parser.add_argument(*names, action="store_true", default=default or False)
        else:
            extra = {"nargs": option["nargs"]} if option.get("nargs") else {}
            parser.add_argument(
                *names, type=TYPES[option["type"]], choices=option.get("choices"), default=default, **extra
            )
    return parser


def main():
    tables = {tool: json.loads((DATA / f"{tool}_flags.json").read_text()) for tool in ("convert", "quantize", "build")}
    parsers = {(tool, version): make_parser(tool, table) for tool in tables for version, table in tables[tool].items()}
    for line in sys.stdin:
        case = json.loads(line)
        parser = parsers.get((case["tool"], case["version"]))
        if parser is None:
            raise SystemExit(f"there is no table of {case['tool']} {case['version']}")
        try:
            result = {"values": vars(parser.parse_args(case["argv"]))}
        except ValueError as error:
            result = {"error": str(error)}
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
