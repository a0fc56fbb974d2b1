"""A master and its workers as processes, to which a test can do what it likes."""

from bench.faults.cable import Cable
from tests.support.processes import end, free_port, wait_until
from tests.support.runs import Finished, start_locust


class Fleet:
    """What they print is in ``runs_dir``; ``stack`` ends them, the last first.

    ``joining`` workers are added by the test itself; the master waits for them too.
    """

    def __init__(self, stack, runs_dir, *arguments, workers=2, joining=0, port=None):
        runs_dir.mkdir(parents=True, exist_ok=True)
        self.runs_dir, self._stack = runs_dir, stack
        self.port = port or free_port()
        self.log = runs_dir / "locust.log"
        self.workers = []
        for _ in range(workers):
            self.add_worker()
        self.master = start_locust(
            *("--master", "--headless", "--master-bind-port", self.port),
            *("--expect-workers", workers + joining, "--runs-dir", runs_dir, *arguments),
            log=self.log,
        )
        stack.callback(end, self.master)

    def add_worker(self, *arguments, port=None, inside=()):
        """One more, which looks for the master; ``inside`` is put before its command."""
        log = self.runs_dir / f"worker-{len(self.workers)}.log"
        words = ("--worker", "--master-port", port or self.port, *arguments)
        worker = start_locust(*words, log=log, inside=inside)
        self.workers.append(worker)
        self._stack.callback(end, worker)
        return worker

    def add_worker_on_a_cable(self):
        """One more; gives the line between it and the master."""
        cable = Cable(self.port)
        self._stack.callback(cable.close)
        self.add_worker(port=cable.port)
        return cable

    def wait_for(self, words, limit_s=60):
        """Until the master has printed it."""
        wait_until(lambda: words in self.log.read_text(), limit_s, words)

    def told(self, worker):
        """What a worker has printed."""
        return (self.runs_dir / f"worker-{worker}.log").read_text()

    def folder(self):
        """Of the run."""
        return next(self.runs_dir.glob("*/run.json")).parent

    def finish(self, limit_s=90):
        """The run, after its end."""
        code = self.master.wait(limit_s)
        return Finished(self.folder(), code, self.log.read_text(), 0.0)


def ids(entries):
    """Of a server's log, sorted, so that one that is there twice shows."""
    return sorted(entry["request_id"] for entry in entries)
