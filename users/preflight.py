"""One real request before the load, so that a wrong URL, model or key ends the run at once.

It uses the real path, headers, key and TLS settings. It also finds out what the endpoint does not
take, so that the load does not fail on it: the model's name when none was given, and
``stream_options``.
"""

import json
from dataclasses import dataclass, replace

from geventhttpclient.client import HTTPClient

from metrics.outcome import Outcome
from settings import Settings, SettingsError
from stream.reply import Reply, ReplyReader
from users.classify import Verdict, classify
from users.connections import tls_context
from users.masking import Masker
from users.secrets import Secrets
from users.transports import open_transports
from users.wire import ChatRequest
from workloads.chat_body import encode_chat
from workloads.prompts import Message, Prompt
from workloads.traffic import TrafficKind

CONNECT_LIMIT_S = 2.5
"""A wrong address must not take the whole connect limit to be told."""
MAX_TOKENS = 8

_HINTS = {
    Outcome.AUTH: "set SWARMGAUGE_API_KEY where the load is sent from",
    Outcome.NOT_FOUND: "check --host and --model",
    Outcome.CONNECT_ERROR: "check --host, and that the server runs",
    Outcome.CONNECT_TIMEOUT: "check --host, and that nothing filters the port",
    Outcome.TLS_ERROR: "give --ca-file for a private authority, or --insecure to go on unverified",
}


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What the first request said. ``error`` is None when the load may start."""

    error: str | None
    model: str | None
    include_usage: bool
    notices: tuple[str, ...]
    requests: int
    """How many requests it sent: they are no part of the run's counts."""


def preflight(settings: Settings, secrets: Secrets, run_id: str) -> PreflightResult:
    """Ask once, with the run's real settings."""
    masker = Masker(secrets.texts)
    model, error = settings.model, None
    if model is None:
        model, error = _first_model(settings, secrets, masker)
    if model is None or not settings.preflight:
        return PreflightResult(error, model, settings.include_usage, (), 0)
    include_usage = settings.include_usage and settings.traffic[0].kind is not TrafficKind.BLOCK
    verdict = _try(settings, secrets, run_id, model, include_usage)
    if include_usage and _names(verdict, "stream_options", "include_usage"):
        notice = "the endpoint refuses stream_options: streams carry no token counts"
        verdict = _try(settings, secrets, run_id, model, include_usage=False)
        return PreflightResult(_error(verdict, settings, masker), model, False, (notice,), 2)
    return PreflightResult(_error(verdict, settings, masker), model, settings.include_usage, (), 1)


def _try(
    settings: Settings, secrets: Secrets, run_id: str, model: str, include_usage: bool
) -> Verdict:
    connect_s = min(settings.limits.connect_s or CONNECT_LIMIT_S, CONNECT_LIMIT_S)
    hasty = replace(settings, limits=replace(settings.limits, connect_s=connect_s))
    try:
        transports = open_transports(hasty, secrets)
    except OSError as error:
        return Verdict(Outcome.TLS_ERROR, None, f"--ca-file {settings.ca_file}: {error}")
    kind = settings.traffic[0].kind
    body = encode_chat(
        Prompt("preflight", None, (Message("user", "Say hello."),), 3),
        model=model,
        max_tokens=MAX_TOKENS,
        max_tokens_field=settings.max_tokens_field,
        stream=kind is not TrafficKind.BLOCK,
        include_usage=include_usage,
        ignore_eos=settings.ignore_eos,
        temperature=settings.temperature,
        extra_body=settings.extra_body,
    )
    reader = ReplyReader()
    transport = transports[kind]
    try:
        facts = transport.post(ChatRequest(body, f"{run_id}-preflight"), reader)
    finally:
        transport.close()
    if facts.interrupt is not None:
        raise facts.interrupt
    reply: Reply = reader.close(facts.end_s)
    return classify(reply, facts.failure)


def _error(verdict: Verdict, settings: Settings, masker: Masker) -> str | None:
    if verdict.outcome in (Outcome.OK, Outcome.RATE_LIMITED, Outcome.OVERLOADED):
        # A full server is what a load test is for; only what can never work ends the run.
        return None
    said = masker.sample(verdict.message or verdict.outcome.value)
    hint = _HINTS.get(verdict.outcome)
    if _names(verdict, "max_tokens"):
        hint = "write --max-tokens-field max_completion_tokens"
    return f"{settings.endpoint.url}: {said}" + (f"; {hint}" if hint else "")


def _names(verdict: Verdict, *words: str) -> bool:
    refused = verdict.outcome is Outcome.CLIENT_ERROR
    return refused and any(word in (verdict.message or "") for word in words)


def _first_model(
    settings: Settings, secrets: Secrets, masker: Masker
) -> tuple[str | None, str | None]:
    """The first model the endpoint lists, or what to do when it lists none."""
    endpoint = settings.endpoint
    ask_for = "give --model NAME"
    client = None
    try:
        client = HTTPClient(
            endpoint.host,
            endpoint.port,
            ssl=endpoint.tls,
            ssl_context_factory=(
                (lambda cafile=None: tls_context(settings.ca_file, settings.insecure))
                if endpoint.tls
                else None
            ),
            insecure=settings.insecure,
            connection_timeout=CONNECT_LIMIT_S,
            network_timeout=CONNECT_LIMIT_S,
        )
        response = client.get(endpoint.target("/models"), headers=secrets.request_headers())
        body, status = response.read(), response.status_code
    except (OSError, ValueError, RuntimeError) as error:
        reason = masker.sample(f"{type(error).__name__}: {error}")
        hint = _HINTS[Outcome.TLS_ERROR if "SSL" in reason else Outcome.CONNECT_ERROR]
        return None, f"{endpoint.base_url}/models: {reason}; {hint}"
    finally:
        if client is not None:
            client.close()
    if status != 200:
        said = masker.sample(body.decode("utf-8", "replace"))
        hint = _HINTS[Outcome.AUTH] if status in (401, 403) else ask_for
        return None, f"{endpoint.base_url}/models: HTTP {status} {said}; {hint}"
    try:
        return str(json.loads(body)["data"][0]["id"]), None
    except (ValueError, LookupError, TypeError):
        return None, f"{endpoint.base_url}/models lists no model; {ask_for}"


def refusal(error: SettingsError) -> PreflightResult:
    """The result when the settings themselves cannot be used on this machine."""
    return PreflightResult(str(error), None, False, (), 0)
