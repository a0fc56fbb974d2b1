"""Request rows from lines of JSON to columns, many at a time.

An object for each row would take gigabytes for a million of them. Only a file that has anything out
of the ordinary is read row by row, which finds the line that is to blame.
"""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import RunFileError, read_lines, read_rows
from reports.memory import give_back
from reports.row_columns import ONE_OF, ROW_TYPES, WHOLE

TRIMMED = 8
"""After so many columns what they left free goes back to the system."""
AT_ONCE = 1_000
"""Rows that are objects at one time."""
PUT_TOGETHER = 50
"""So many parts are joined as they come: small pieces of memory, once freed, are of little use."""
_DEFAULTS = {f.name: f.default for f in fields(RequestRecord) if f.default is not MISSING}
_VALUES = {name: {str(one) for one in kind} for name, kind in ONE_OF.items()}


class _OutOfTheOrdinary(ValueError):
    """Rows that must be looked at one by one."""


def table_of_lines(sources: Sequence[Path], names: Sequence[str] = FIELD_NAMES) -> pa.Table:
    """The rows of all files in the order they were started, each request once; ``names`` of them.

    A worker's spool holds what it also sent. What is missing of the files is skipped.

    Raises:
        RunFileError: as ``metrics.run_files.read_rows``.
    """
    here = [path for path in sources if path.exists()]
    # The order hangs on the first three.
    wanted = tuple(dict.fromkeys(("worker", "sequence", "started_s", *names)))
    parts, seen = [_table_of_rows([], wanted)], set[int]()
    for place, path in enumerate(here):
        try:
            found = list(_put_together(_tables(path, wanted, seen, place + 1 < len(here))))
        except (_OutOfTheOrdinary, ValueError, TypeError, pa.ArrowException) as error:
            if isinstance(error, RunFileError):
                raise
            found = [_row_by_row(path, wanted)]
        parts += found
        found.clear()
    return _in_order(_once(_joined(parts))).select(list(names))


def table_of_records(records: Sequence[RequestRecord]) -> pa.Table:
    """The same of records in memory, each of them kept.

    Raises:
        TypeError, ValueError: a value is not of its field's type.
    """
    return _in_order(_table_of_rows([record.to_row() for record in records], FIELD_NAMES))


def _put_together(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    while several := list(islice(tables, PUT_TOGETHER)):
        yield pa.concat_tables(several).unify_dictionaries().combine_chunks()


def _tables(path: Path, names: Sequence[str], seen: set[int], further: bool) -> Iterator[pa.Table]:
    """The rows of a file that were not seen; ``further``: note them, for more files follow."""
    with path.open("rb") as lines:
        first = next(read_lines(islice(lines, 1), str(path)), None)
        if not isinstance(first, dict):
            return
        while several := list(islice(lines, AT_ONCE)):
            if not several[-1].endswith(b"\n"):
                several.pop()
            rows = [line for line in several if not line.startswith(b"{")]
            if seen:
                rows = [line for line in rows if hash(line) not in seen]
            yield _table_of_rows(_decoded(rows), names, first["fields"])
            if further:
                seen.update(map(hash, rows))


def _decoded(lines: Sequence[bytes]) -> list[list[Any]]:
    rows = msgspec.json.decode(b"[" + b",".join(lines) + b"]")
    if len(rows) != len(lines) or not all(type(row) is list for row in rows):
        raise _OutOfTheOrdinary
    return rows


def _table_of_rows(
    rows: Sequence[Sequence[Any]], names: Sequence[str], fields_: Sequence[str] = FIELD_NAMES
) -> pa.Table:
    columns = dict(zip(fields_, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = []
    for name in names:
        if rows and name not in columns and name not in _DEFAULTS:
            raise _OutOfTheOrdinary
        values = columns.get(name) or [_DEFAULTS.get(name)] * len(rows)
        # Arrow would cut a number down to a whole one.
        if name in WHOLE and not {int, type(None)}.issuperset(map(type, values)):
            raise _OutOfTheOrdinary(f"{name} is not a whole number")
        array = pa.array(values, type=ROW_TYPES[name])
        known = _VALUES.get(name)
        if known and not known.issuperset(array.dictionary.to_pylist()):
            raise _OutOfTheOrdinary
        arrays.append(array)
    return pa.table(arrays, names=list(names))


def _row_by_row(path: Path, names: Sequence[str]) -> pa.Table:
    with path.open("rb") as lines:
        records = list(read_rows(lines, str(path)))
    try:
        return _table_of_rows([record.to_row() for record in records], names)
    except (_OutOfTheOrdinary, TypeError, ValueError, pa.ArrowException) as error:
        raise RunFileError(f"{path}: not request rows ({error})") from None


def _joined(parts: list[pa.Table]) -> pa.Table:
    """One table of all parts, which are no longer held."""
    table = pa.concat_tables(parts).unify_dictionaries()
    parts.clear()
    return table


def _once(table: pa.Table) -> pa.Table:
    keys = table.select(["worker", "sequence"]).to_pandas()
    twice = keys.duplicated(keep="last").to_numpy()
    return table.filter(pa.array(~twice)) if twice.any() else table


def _in_order(table: pa.Table) -> pa.Table:
    worker = table["worker"].cast(pa.string()).to_pandas()
    started_s, sequence = table["started_s"].to_numpy(), table["sequence"].to_pandas()
    order = start_order(started_s, worker, sequence)
    if (order[1:] > order[:-1]).all():
        return table
    # One column after the other, so that never all of them are there twice.
    names, columns = table.column_names, []
    while table.num_columns:
        columns.append(table.column(0).take(order).combine_chunks())
        table = table.remove_column(0)
        if not table.num_columns % TRIMMED:
            give_back()
    return pa.table(columns, names=names)


def start_order(
    started_s: npt.NDArray[np.float64], worker: pd.Series, sequence: pd.Series
) -> npt.NDArray[np.intp]:
    """The places of rows in the order of their start, of one instant by worker and its count."""
    codes, _ = pd.factorize(worker, sort=True)
    return np.lexsort((sequence.to_numpy(dtype=np.float64, na_value=np.nan), codes, started_s))
