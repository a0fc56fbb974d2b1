"""Spools as workers write them, of one made-up run."""

from hooks.recorder import Recorder
from metrics.spool import spool_header
from metrics.stage import Phase, PhaseMark, Stage
from tests.support.records import make_record
from tests.support.run_builder import META

RUN_ID = META["run_id"]
STAGE = Stage(0, "level", 2)
IDENTITY = {
    **{name: META[name] for name in ("schema", "run_id", "name", "url", "model", "settings")},
    **{name: META[name] for name in ("shape", "slo", "max_fail_ratio", "seed", "salt", "insecure")},
    **{name: META[name] for name in ("versions", "prefix_hashes")},
}
WORKER = {"id": "w1", "index": 1, "host": "h1"}


def record(sequence, worker="w1", **changes):
    """A success of the run, told apart by its sequence."""
    values = {"run_id": RUN_ID, "started_s": 1 + sequence * 0.1, "worker": worker, **changes}
    return make_record(sequence=sequence, **values)


def write_spool(path, n, worker="w1", end=True, first=0, run_id=RUN_ID):
    """A spool as a worker leaves it: a held window, ``n`` requests in reports of three each."""
    header = spool_header({**WORKER, "id": worker}, {**IDENTITY, "run_id": run_id})
    recorder = Recorder(path, header)
    recorder.mark(PhaseMark(worker, STAGE, Phase.HOLD, 0.0, 2))
    for sequence in range(first, first + n):
        recorder.add(record(sequence, worker, run_id=run_id), [0.1] * 4)
        if sequence % 3 == 2:
            recorder.take()
    recorder.take()
    if end:
        recorder.close()
    return path
