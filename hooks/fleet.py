"""Which processes run users now, as Locust sees it."""

import logging
from collections.abc import Collection
from functools import partial
from typing import TypeGuard

import gevent
from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import STATE_RUNNING, MasterRunner, Runner, WorkerNode

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


def take_back(runner: Runner, refused: Collection[str] = ()) -> None:
    """Have users dispatched again to workers that Locust left out for good.

    A worker whose heartbeats came late is left out of the dispatcher. Its next heartbeat brings it
    back, but not when the end of its spawning was reported before that: then nobody tells it of
    users any more, and those that it has stay for the rest of the run. Those that are ``refused``
    stay out.
    """
    if not isinstance(runner, MasterRunner) or (dispatcher := runner._users_dispatcher) is None:
        return
    known = {node.id for node in dispatcher._worker_nodes}
    fleet = set(fleet_of(runner)) - set(refused)
    left_out = [node for node in runner.clients.values() if node.id in fleet - known]
    if not runner.spawning_completed:
        return  # its end may be what brings the worker back
    for node in left_out:
        log.warning("worker %s was late and is given users again", node.id)
        dispatcher.add_worker(node)


def leave_out(runner: Runner, client_id: str) -> bool:
    """Have no users dispatched to this worker any more; whether it had been given any.

    Those that it had are the others' once they are handed out anew.
    """
    if not isinstance(runner, MasterRunner) or (dispatcher := runner._users_dispatcher) is None:
        return False
    if client_id not in {node.id for node in dispatcher._worker_nodes}:
        return False
    dispatcher.remove_worker(runner.clients[client_id])
    return bool(dispatcher._worker_nodes)


def take_in(runner: Runner, client_ids: Collection[str]) -> None:
    """Have users dispatched to these workers too, once they are handed out anew."""
    if not isinstance(runner, MasterRunner) or (dispatcher := runner._users_dispatcher) is None:
        return
    for client_id in sorted(client_ids):
        dispatcher.add_worker(runner.clients[client_id])


def hand_out_anew(runner: Runner) -> bool:
    """Have Locust share the users out again, unless it is at it; whether that was begun."""
    if not hands_out_nothing(runner):
        return False
    # Not here: it waits for the workers, whose messages this greenlet may be the one to read.
    gevent.spawn(_hand_out, runner)
    return True


def _hand_out(runner: MasterRunner) -> None:
    # A stage may have begun in between, or the run ended: its number of users is the right one.
    if hands_out_nothing(runner):
        runner.start(runner.target_user_count, runner.spawn_rate)


def hands_out_nothing(runner: Runner) -> TypeGuard[MasterRunner]:
    """Whether this is a master that runs and is not at sharing users out."""
    if not isinstance(runner, MasterRunner):
        return False
    return bool(runner.state == STATE_RUNNING and runner.spawning_completed)


def dispatch_only_to(runner: Runner, client_ids: Collection[str]) -> None:
    """Have users of the run that begins now dispatched to these workers alone.

    ``client_ids`` may grow while the run goes on.
    """
    if not isinstance(runner, MasterRunner):
        return
    here = set(fleet_of(runner)) & set(client_ids)  # one may have gone missing since it was asked
    nodes = [node for node in runner.clients.values() if node.id in here]
    make = partial(MembersDispatcher, members=client_ids)
    runner.environment.dispatcher_class = make  # type: ignore[assignment]
    if nodes:
        runner._users_dispatcher = make(worker_nodes=nodes, user_classes=runner.user_classes)


class MembersDispatcher(UsersDispatcher):
    """Locust's dispatcher, for a run whose users stay with those that take part in it.

    Locust shares users out anew whenever a worker comes, before anybody knows whether it can take
    part. One that can't would keep its users idle, and they would be missing where they were; so
    would those of one that joins an open loop late, for it has no share of the schedule.
    """

    def __init__(
        self,
        worker_nodes: list[WorkerNode],
        user_classes: list[type[User]],
        members: Collection[str],
    ) -> None:
        self._members = members
        here = [node for node in worker_nodes if node.id in self._members]
        super().__init__(here or worker_nodes, user_classes)

    def add_worker(self, worker_node: WorkerNode) -> None:
        """Locust's hook: a worker came, or came back."""
        if worker_node.id in self._members:
            super().add_worker(worker_node)
