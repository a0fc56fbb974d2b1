"""One real request before the load, so that a wrong URL, model or key ends the run at once.

It uses the real path, headers, key and TLS settings. It also finds out what the endpoint does not
take, so that the load does not fail on it: the model's name when none was given, and
``stream_options``.
"""

import json
from dataclasses import dataclass, replace

from geventhttpclient.response import HTTPParseError, HTTPSocketPoolResponse

from metrics.outcome import Outcome
from metrics.trace_context import traceparent
from settings import Settings, SettingsError
from stream.reply import Reply, ReplyReader
from users.classify import Verdict, classify
from users.connections import CountingPool, tls_context
from users.masking import Masker
from users.proxy import ProxyError, by_proxy, proxy_headers
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
_PROXY_HINT = "check the proxy variables and --proxy; --proxy off goes straight to the endpoint"


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What the first request said. ``error`` is None when the load may start."""

    error: str | None
    model: str | None
    include_usage: bool
    notices: tuple[str, ...]
    requests: int
    """How many requests it sent: they are no part of the run's counts."""
    proxy: str | None = None
    """The proxy that the load goes through, without credentials; None for none."""


def preflight(settings: Settings, secrets: Secrets, run_id: str) -> PreflightResult:
    """Ask once, with the run's real settings."""
    proxy = secrets.proxy.url if secrets.proxy is not None else None
    return replace(_preflight(settings, secrets, run_id), proxy=proxy)


def _preflight(settings: Settings, secrets: Secrets, run_id: str) -> PreflightResult:
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
        name = f"{run_id}-preflight"
        trace = traceparent(name, 0, settings.traceparent)
        facts = transport.post(ChatRequest(body, name, trace), reader)
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
    if said.startswith(ProxyError.__name__):
        hint = _PROXY_HINT
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
    try:
        status, body = _get_models(settings, secrets)
    except (OSError, HTTPParseError) as error:
        reason = masker.sample(f"{type(error).__name__}: {error}")
        hint = _HINTS[Outcome.TLS_ERROR if "SSL" in reason else Outcome.CONNECT_ERROR]
        if isinstance(error, ProxyError):
            hint = _PROXY_HINT
        return None, f"{endpoint.base_url}/models: {reason}; {hint}"
    if status != 200:
        said = masker.sample(body.decode("utf-8", "replace"))
        hint = _HINTS[Outcome.AUTH] if status in (401, 403) else ask_for
        return None, f"{endpoint.base_url}/models: HTTP {status} {said}; {hint}"
    try:
        return str(json.loads(body)["data"][0]["id"]), None
    except (ValueError, LookupError, TypeError):
        return None, f"{endpoint.base_url}/models lists no model; {ask_for}"


def _get_models(settings: Settings, secrets: Secrets) -> tuple[int, bytes]:
    """Status and body of ``/models``.

    Raises:
        OSError, HTTPParseError: there was no whole answer.
    """
    endpoint = by_proxy(settings.endpoint, secrets.proxy)
    tls = tls_context(settings.ca_file, settings.insecure) if endpoint.tls else None
    limits = replace(settings.limits, connect_s=CONNECT_LIMIT_S, first_token_s=CONNECT_LIMIT_S)
    fields = {
        "Host": endpoint.authority,
        "User-Agent": "swarmgauge",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        **secrets.request_headers(),
        **proxy_headers(endpoint),
    }
    lines = [f"GET {endpoint.target('/models')} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    pool = CountingPool(endpoint, limits, tls)
    try:
        sock, _ = pool.take()
        sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        response = HTTPSocketPoolResponse(sock, pool, method="GET")
        return response.status_code, bytes(response.read())
    finally:
        pool.close()


def refusal(error: SettingsError) -> PreflightResult:
    """The result when the settings themselves cannot be used on this machine."""
    return PreflightResult(str(error), None, False, (), 0)
