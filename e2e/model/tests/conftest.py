"""Builders of what several tests need: engines are built once per test session, from the committed checkpoints."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Builds an engine and returns its model repository; the same build is made once."""
    from builder.options import read_build_task
    from builder.repository import build_repository

    built = {}

    def build_engine(model: str, precision: str, **options: int | str) -> Path:
        key = (model, precision, tuple(sorted(options.items())))
        if key not in built:
            root = tmp_path_factory.mktemp(f"{model}-{precision}")
            task = root / "build.json"
            task.write_text(json.dumps({"precision": precision, "options": options}))
            target = build_repository(read_build_task(task), ROOT / "checkpoints" / model, root)
            built[key] = target.parent
        return built[key]

    return build_engine


@pytest.fixture(scope="session")
def engine(build):
    """Loads an engine for generation."""
    from builder.generation.engine import load_engine

    def load(model: str, precision: str, n_rows: int = 32, **options: int | str):
        return load_engine(build(model, precision, **options) / "agent" / "1", n_rows, n_threads=1)

    return load
