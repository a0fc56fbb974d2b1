"""Whether two processes run the same suite: content hashes that travel with a run's beginning.

Workers with other code send other prompts, count otherwise, or speak other messages, and nothing
in the figures would show it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parent.parent
PACKAGES = ("hooks", "metrics", "reports", "shapes", "stream", "users", "workloads")
MODULES = ("locustfile", "option_reader", "options", "settings", "values")
"""With the packages, what a run's processes are made of. Tests and servers do not count."""
SHOWN = 12
"""Characters of a hash in messages."""


def suite_files(root: Path) -> Iterator[Path]:
    """The Python files under ``root`` that make the suite, in no order; no caches."""
    yield from (path for module in MODULES if (path := root / f"{module}.py").exists())
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            if not path.name.startswith(".") and "__pycache__" not in path.parts:
                yield path


def suite_hash(root: Path, files: Iterable[Path] | None = None) -> str:
    """SHA-256 over names and contents of the suite's files, whatever the order they are found in.

    Line ends do not count: a checkout may have changed them.
    """
    found = suite_files(root) if files is None else files
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in found):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


@dataclass(slots=True)
class FileReader:
    """Reads what options name, and keeps the hash of each text by name."""

    read: Callable[[str], str]
    hashes: dict[str, str] = field(default_factory=dict)

    def __call__(self, path: str) -> str:
        """The text of a file."""
        text = self.read(path)
        self.hashes[path] = hashlib.sha256(text.encode()).hexdigest()
        return text


def objection(
    theirs: Mapping[str, Any], code: str, files: Mapping[str, str] | None = None
) -> str | None:
    """Why a process of this ``code`` and these read ``files`` cannot take part; None when it can.

    ``theirs`` is the master's ``{code, files}``.
    """
    if theirs["code"] != code:
        return (
            f"its code is {code[:SHOWN]} and the master's {theirs['code'][:SHOWN]} (SHA-256 of "
            f"*.py beside locustfile.py and in {', '.join(PACKAGES)}): bring both to the same "
            "checkout or image and start the worker again"
        )
    for name, wanted in theirs["files"].items():
        found = (files or {}).get(name, "")
        if found and found != wanted:
            return (
                f"its file {name} is {found[:SHOWN]} and the master's {wanted[:SHOWN]} (SHA-256): "
                "copy the master's to the worker's machine"
            )
    return None
