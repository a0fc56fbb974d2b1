"""What a process needs to take part in a run: made from the master's words, or refused."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooks.recorder import Recorder
from hooks.run_identity import run_identity
from hooks.run_options import read_text
from hooks.suite_identity import FileReader, objection
from metrics.run_files import SPOOL_FOLDER
from metrics.spool import spool_header
from settings import Settings, SettingsError
from users.masking import Masker
from users.retry_policy import retry_policy
from users.run_context import RunContext
from users.secrets import load_secrets
from users.slots import Slots
from users.transports import open_transports
from workloads.arrivals import Sharing, count_share
from workloads.prompts import PromptPlan
from workloads.retry_budget import RetryBudget


@dataclass(frozen=True, slots=True)
class Me:
    """Who joins: Locust's id and index of this process, our short name, its suite's hash."""

    client_id: str
    index: int
    name: str
    code: str


def trouble(data: Mapping[str, Any], me: Me) -> str | None:
    """Why this process cannot take part in a run; None when it can.

    ``data`` has the run's ``options`` and the master's ``identity``.
    """
    try:
        settings = checked(data, me)
        load_secrets(settings)
    except (SettingsError, OSError) as error:
        return str(error)
    return None


def checked(data: Mapping[str, Any], me: Me) -> Settings:
    """The run's settings, as this process reads them.

    Raises:
        SettingsError: an option cannot be used here, or this process is another suite's.
    """
    against = objection(data["identity"], me.code)
    if against is None:
        reader = FileReader(read_text)
        settings = Settings.from_options(data["options"], reader)
        against = objection(data["identity"], me.code, reader.hashes)
        if against is None:
            return settings
    raise SettingsError(against)


def join(data: Mapping[str, Any], me: Me, distributed: bool) -> tuple[RunContext, Recorder]:
    """Take part: ``data`` is that of ``messages.BEGIN``.

    Raises:
        SettingsError: this process cannot take part.
        OSError: its spool cannot be opened.
    """
    settings = checked(data, me)
    secrets = load_secrets(settings)
    transports = open_transports(settings, secrets)
    plan = prompt_plan(settings, data["salt"])
    spool = spool_path(settings, data["folder_name"], me.name) if distributed else None
    header = b""
    if spool is not None:
        told = {"id": me.name, "index": me.index, "host": socket.gethostname()}
        run = run_identity(settings, data["run_id"], data["model"], data["salt"], plan.prefix_ids)
        header = spool_header(told, run)
    recorder = Recorder(spool, header, settings.records_on_workers)
    fleet = data["fleet"]
    position = fleet.index(me.client_id) if me.client_id in fleet else None
    context = RunContext(
        run_id=data["run_id"],
        worker=me.name,
        worker_index=me.index,
        settings=settings,
        model=data["model"],
        include_usage=data["include_usage"],
        plan=plan,
        transports=transports,
        masker=Masker(secrets.texts),
        retry_policy=retry_policy(settings),
        retry_budget=RetryBudget(settings.retrying.budget_ratio),
        slots=_slots(settings, position, len(fleet)),
        position=position,
        workers=len(fleet),
        warmup_left=_share(settings.warmup_requests, position, len(fleet)),
        requests_left=_share(settings.max_requests, position, len(fleet))
        if settings.max_requests
        else None,
    )
    return context, recorder


def sharing_of(data: Mapping[str, Any], me: Me) -> Sharing:
    """Who shares a schedule from when on, as this process sees it: ``data`` is that of
    ``messages.SHARE_ANEW``."""
    fleet = list(data["fleet"])
    place = fleet.index(me.client_id) if me.client_id in fleet else None
    return Sharing(data["stage"], data["from_s"], place, len(fleet))


def spool_path(settings: Settings, folder_name: str, worker: str) -> Path:
    """Where a worker keeps its own rows."""
    return Path(settings.runs_dir) / folder_name / SPOOL_FOLDER / f"{worker}.jsonl"


def prompt_plan(settings: Settings, salt: str) -> PromptPlan:
    """The run's prompts: the same on every machine, because they follow from the salt alone."""
    return PromptPlan.build(
        prefixes=settings.prefixes,
        prefix_tokens=settings.prefix_tokens,
        prompt_tokens=settings.prompt_tokens,
        salt=salt,
        seed=settings.seed,
    )


def _share(total: int, position: int | None, workers: int) -> int:
    """Of a number of requests; one that joined late has none."""
    return 0 if position is None else count_share(total, position, workers)


def _slots(settings: Settings, position: int | None, workers: int) -> Slots | None:
    """This worker's share of what may be in flight; one that joined late gets one slot."""
    if not settings.max_in_flight:
        return None
    return Slots(max(1, _share(settings.max_in_flight, position, workers)))
