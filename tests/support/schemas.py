"""The schemas that the repository ships, and whether values fit them."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
NAMES = ("summary", "run", "stages", "compare", "compat")


def schema(name):
    """The schema of that kind of file."""
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))


@cache
def _validator(name):
    return Draft202012Validator(schema(name))


def misfits(name, values):
    """What does not fit, one text each; empty when all does."""
    # As a reader has it: tuples are lists there, and half a character has been replaced.
    plain = json.loads(json.dumps(values, allow_nan=False))
    return [f"{e.json_path}: {e.message[:200]}" for e in _validator(name).iter_errors(plain)]
