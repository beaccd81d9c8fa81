#!/usr/bin/env python3
"""Writes what people install into Argo CD from the Lua files of the operator's chart.

    argocd.py           writes argocd-cm.yaml and values.yaml beside the Lua files
    argocd.py --check   fails when one of them differs from what would be written
"""

import difflib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "charts/slipway/files/argocd"
GROUP = "slipway.dev"
# Discovery says in which order people see them.
ACTIONS = ["approve", "promote", "abort", "retry", "pause", "resume"]

CONFIG_MAP = """\
# Health checks and actions of Slipway's kinds, written by .ci/argocd.py. Merge it into the ConfigMap that Argo CD has:
#   kubectl patch configmap argocd-cm -n argocd --patch-file argocd-cm.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
data:
"""
VALUES = """\
# Health checks and actions of Slipway's kinds, written by .ci/argocd.py: values of the chart argo-cd.
#   helm upgrade argocd argo/argo-cd --reuse-values -f values.yaml
configs:
  cm:
"""


def indented(text: str, spaces: int) -> str:
    """The lines of a text, moved to the right."""
    return "".join(f"{' ' * spaces}{line}\n" if line else "\n" for line in text.splitlines())


def actions(folder: pathlib.Path) -> str:
    """What Argo CD reads as the actions of a kind: a text in YAML."""
    text = "discovery.lua: |\n" + indented((folder / "discovery.lua").read_text(), 2) + "definitions:\n"
    found = sorted(path.parent.name for path in folder.glob("*/action.lua"))
    assert found == sorted(ACTIONS), f"{folder}: {found}"
    for name in ACTIONS:
        text += f"- name: {name}\n  action.lua: |\n" + indented((folder / name / "action.lua").read_text(), 4)
    return text


def settings() -> dict[str, str]:
    """The keys of argocd-cm."""
    found = {}
    for kind in sorted((FOLDER / GROUP).iterdir()):
        found[f"resource.customizations.health.{GROUP}_{kind.name}"] = (kind / "health.lua").read_text()
        if (kind / "actions").is_dir():
            found[f"resource.customizations.actions.{GROUP}_{kind.name}"] = actions(kind / "actions")
    return found


def document(head: str, spaces: int) -> str:
    """The keys below a head."""
    block = "".join(f"{key}: |\n{indented(value, 2)}" for key, value in settings().items())
    return head + indented(block, spaces)


def main() -> int:
    written = {"argocd-cm.yaml": document(CONFIG_MAP, 2), "values.yaml": document(VALUES, 4)}
    stale = False
    for name, text in written.items():
        path = FOLDER / name
        found = path.read_text() if path.exists() else ""
        if sys.argv[1:] == ["--check"]:
            difference = list(difflib.unified_diff(found.splitlines(), text.splitlines(), str(path), "as it would be", lineterm=""))
            print("\n".join(difference), end="\n" if difference else "")
            stale = stale or found != text
        else:
            path.write_text(text)
    if stale:
        print("the files of Argo CD are out of date: run make generate", file=sys.stderr)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
