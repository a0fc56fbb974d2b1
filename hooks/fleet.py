"""Which processes run users now, as Locust sees it."""

from collections.abc import Collection

from locust.runners import MasterRunner, Runner


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
