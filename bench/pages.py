"""Puts what was measured into a page of ``docs/``, between two markers."""

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
END = "<!-- measured: end -->"


def put_measured(page: str, command: str, text: str) -> None:
    """Replace what stands after the marker of ``command``, such as ``python -m bench.knee``.

    Raises:
        SystemExit: the page has lost its markers.
    """
    path, begin = DOCS / page, f"<!-- measured: {command} -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise SystemExit(f"{page} has lost its markers {begin} and {END}")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    print(f"== written to {page}")
