"""Which processes run users now, as Locust sees it."""

import logging
from collections.abc import Collection

from locust.runners import MasterRunner, Runner

log = logging.getLogger("swarmgauge")


def fleet_of(runner: Runner) -> list[str]:
    """The client ids of the processes that share a schedule, in the order of their shares."""
    if not isinstance(runner, MasterRunner):
        return [runner.client_id]
    clients = runner.clients
    return sorted(client.id for client in clients.ready + clients.spawning + clients.running)


def alive_workers(runner: Runner, workers: Collection[str]) -> frozenset[str]:
    """Those of the workers, by our short names, that are in it; all of them in a single process."""
    if not isinstance(runner, MasterRunner):
        return frozenset(workers)
    alive = {client_id[-8:] for client_id in fleet_of(runner)}
    return frozenset(worker for worker in workers if worker[-8:] in alive)


def take_back(runner: Runner) -> None:
    """Have users dispatched again to workers that Locust left out for good.

    A worker whose heartbeats came late is left out of the dispatcher. Its next heartbeat brings it
    back, but not when the end of its spawning was reported before that: then nobody tells it of
    users any more, and those that it has stay for the rest of the run.
    """
    if not isinstance(runner, MasterRunner) or (dispatcher := runner._users_dispatcher) is None:
        return
    known = {node.id for node in dispatcher._worker_nodes}
    fleet = set(fleet_of(runner))
    left_out = [node for node in runner.clients.values() if node.id in fleet - known]
    if not runner.spawning_completed:
        return  # its end may be what brings the worker back
    for node in left_out:
        log.warning("worker %s was late and is given users again", node.id)
        dispatcher.add_worker(node)
