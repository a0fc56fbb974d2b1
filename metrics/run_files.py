"""The names and shapes of the files in a run's folder; reading and writing them is for others.

Request rows are JSON lines: the first line of a file names the fields, each further line is one
record's values in that order. A killed writer leaves at most one torn last line, which is skipped.
A worker's spool has objects between the rows (``metrics/spool.py``), which readers of rows skip.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from metrics.record import FIELD_NAMES, RequestRecord
from metrics.stage import Phase, PhaseMark, Stage

RUN_SCHEMA = "swarmgauge.run/1"
REQUESTS_SCHEMA = "swarmgauge.requests/1"
SPOOL_SCHEMA = "swarmgauge.requests/2"
"""Rows with objects between them."""
STAGES_SCHEMA = "swarmgauge.stages/1"
SUMMARY_SCHEMA = "swarmgauge.summary/1"

RUN_JSON = "run.json"
REQUESTS_JSONL = "requests.jsonl"
REQUESTS_PARQUET = "requests.parquet"
STAGES_JSON = "stages.json"
SUMMARY_JSON = "summary.json"
SUMMARY_CSV = "summary.csv"
SUMMARY_MD = "summary.md"
JUNIT_XML = "junit.xml"
METRICS_PROM = "metrics.prom"
REPORT_HTML = "report.html"
PLOTS_FOLDER = "plots"
SPOOL_FOLDER = "spool"


class RunFileError(ValueError):
    """A file of a run cannot be read: the message says which and why."""


def check_schema(found: object, wanted: str, file_name: str) -> None:
    """Accept a schema of the wanted name and a version up to ours.

    Raises:
        RunFileError: another kind of file, or a newer version than this reader knows.
    """
    kind, _, version = str(found).partition("/")
    wanted_kind, _, wanted_version = wanted.partition("/")
    if kind != wanted_kind or not version.isdigit():
        what = f"schema {found!r} is" if found is not None else "no schema, so it is"
        raise RunFileError(f"{file_name}: {what} not a {wanted_kind} file of this suite")
    if int(version) > int(wanted_version):
        raise RunFileError(
            f"{file_name}: schema {found} is newer than this version reads ({wanted}); "
            "update Swarmgauge"
        )


def json_line(values: Any) -> bytes:
    """Plain values as a line of JSON."""
    return (
        json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
            "utf-8", "replace"
        )
        + b"\n"
    )


def header_line() -> bytes:
    """The first line of a file of request rows."""
    return json_line({"schema": REQUESTS_SCHEMA, "fields": FIELD_NAMES})


def row_line(row: Sequence[Any]) -> bytes:
    """One request row (``RequestRecord.to_row``) as a line."""
    return json_line([round(v, 7) if isinstance(v, float) else v for v in row])


def rows_of(lines: Sequence[bytes]) -> list[list[Any]]:
    """The values of request rows that came as lines (:func:`row_line`)."""
    rows: list[list[Any]] = msgspec.json.decode(b"[" + b",".join(lines) + b"]")
    return rows


def read_rows(lines: Iterable[bytes], file_name: str = REQUESTS_JSONL) -> Iterator[RequestRecord]:
    """The records of a file of request rows, also of a spool.

    A line that was never finished (no line end, because the writer was killed) is skipped; it can
    only be the last one.

    Raises:
        RunFileError: no header, a newer schema, or a finished line that does not parse.
    """
    for item in read_lines(lines, file_name):
        if isinstance(item, RequestRecord):
            yield item


def read_lines(lines: Iterable[bytes], file_name: str) -> Iterator[RequestRecord | dict[str, Any]]:
    """The header, then each record, and each object between the records.

    Raises:
        RunFileError: as :func:`read_rows`.
    """
    names: list[str] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            values = json.loads(line)
            if names is None:
                check_schema(values.get("schema"), SPOOL_SCHEMA, file_name)
                names = values["fields"]
            item = values if isinstance(values, dict) else RequestRecord.from_row(values, names)
        except RunFileError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunFileError(f"{file_name} line {number}: not a request row ({error})") from None
        yield item


def stage_to_wire(stage: Stage) -> dict[str, Any]:
    """A stage as plain values."""
    return {
        "stage": stage.id,
        "kind": stage.kind,
        "target_users": stage.target_users,
        "rate_rps": stage.rate_rps,
        "rate_tokens_per_s": stage.rate_tokens_per_s,
    }


def stage_from_wire(wire: Mapping[str, Any]) -> Stage:
    """The inverse of :func:`stage_to_wire`; runs of older versions lack the rates."""
    return Stage(
        wire["stage"],
        wire["kind"],
        wire["target_users"],
        wire.get("rate_rps"),
        wire.get("rate_tokens_per_s"),
    )


def mark_to_wire(mark: PhaseMark) -> dict[str, Any]:
    """A phase mark as plain values."""
    return {
        "worker": mark.worker,
        **stage_to_wire(mark.stage),
        "phase": mark.phase.value,
        "at_s": mark.at_s,
        "users": mark.users,
    }


def mark_from_wire(wire: dict[str, Any]) -> PhaseMark:
    """The inverse of :func:`mark_to_wire`."""
    return PhaseMark(
        worker=wire["worker"],
        stage=stage_from_wire(wire),
        phase=Phase(wire["phase"]),
        at_s=wire["at_s"],
        users=wire["users"],
    )
