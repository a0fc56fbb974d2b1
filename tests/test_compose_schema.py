"""The Compose file is one by the Compose specification, which is what Compose v2 reads."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def checked(folder, text):
    """The exit code and the words of the check by the specification's schema."""
    path = folder / "docker-compose.yml"
    path.write_text(text, encoding="utf-8")
    # The schema is in the package: nothing is fetched.
    arguments = ("--builtin-schema", "vendor.compose-spec", str(path))
    command = [sys.executable, "-m", "check_jsonschema", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_specification_takes_the_file(tmp_path):
    """Every key and every form in it is one that the specification has."""
    code, words = checked(tmp_path, COMPOSE)

    assert 0 == code, words


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ("  cap_drop:\n", "  drop_caps:\n", "drop_caps"),
        ("  read_only: true\n", "  read_only: [yes]\n", "read_only"),
        ("\nservices:\n", "\nservice:\n", "service"),
    ],
    ids=["a key", "a value", "the top"],
)
def test_a_fault_in_it_is_found(tmp_path, right, wrong, named):
    """The check can fail, and names what is wrong."""
    assert right in COMPOSE
    code, words = checked(tmp_path, COMPOSE.replace(right, wrong, 1))

    assert 1 == code
    assert named in words
