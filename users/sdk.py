"""The transport over the openai SDK: one client per process, no retries of its own.

The SDK's typed stream stops at ``[DONE]`` without reading the body's end, so that each request
opens a new connection. Raw bytes are read to the end instead, and decoded by sseclient-py.
"""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any

import gevent
import gevent.local
import httpx2
import openai
from gevent import GreenletExit
from sseclient import SSEClient

from metrics.outcome import Outcome
from settings import TimeLimits
from stream.reply import ReplyReader
from users.connections import POOL_SIZE
from users.deadlines import Deadlines, LimitReached
from users.proxy import ProxyError, proxy_of
from users.wire import ChatRequest, WireFacts, WireFailure
from workloads.endpoint import ChatEndpoint

_LOST = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)


class SdkTransport:
    """Posts chat requests through one shared ``openai.OpenAI`` client."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        headers: Mapping[str, str],
        limits: TimeLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._deadlines = Deadlines(limits)
        self._limits = limits
        # Each user's greenlet opens its own connection at a time.
        self._opening = gevent.local.local()
        self._endpoint = endpoint
        http_client = openai.DefaultHttpxClient(
            verify=tls if tls is not None else True,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=POOL_SIZE),
            proxy=_proxy(endpoint),
            # The variables have been read: httpx2 has rules of its own for them.
            trust_env=False,
            event_hooks={"request": [self._limit_connecting]},
        )
        authorization = {n: v for n, v in headers.items() if n.lower() == "authorization"}
        self._authorization = authorization or {"Authorization": openai.Omit()}
        self._given = {name.lower() for name in headers}
        self._client = openai.OpenAI(
            # The SDK insists on a key; the header itself is ours, or left out.
            api_key="none",
            base_url=endpoint.base_url,
            default_query=dict(_query_pairs(endpoint.query)),
            default_headers=dict(headers),
            max_retries=0,
            timeout=httpx2.Timeout(limits.first_token_s, connect=limits.connect_s),
            http_client=http_client,
        )

    def close(self) -> None:
        """Drop kept connections."""
        self._client.close()

    def post(self, request: ChatRequest, reader: ReplyReader) -> WireFacts:
        """Send one request and read its answer into ``reader``."""
        facts = WireFacts(sent_at_s=time.perf_counter(), sent_bytes=len(request.body))
        try:
            self._post_anew_when_stale(request, reader, facts)
        except LimitReached as limit:
            facts.failure = WireFailure(limit.outcome, limit.message)
        except _ConnectLimitReached as limit:
            text = f"no connection in {limit.seconds:g} s"
            facts.failure = WireFailure(Outcome.CONNECT_TIMEOUT, text)
        except GreenletExit as stop:
            facts.failure = WireFailure(Outcome.CANCELLED, "cancelled by us")
            facts.interrupt = stop
        except openai.APIStatusError as error:
            _read_error(error, reader, facts)
        except (openai.APIError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            facts.failure = self._failure(error, reader, facts)
        finally:
            # Not every way out of opening is traced: a proxy's refusal and a kill are not.
            self._end_opening()
        if not facts.end_s:
            facts.end_s = time.perf_counter() - facts.sent_at_s
        return facts

    def _post_anew_when_stale(
        self, request: ChatRequest, reader: ReplyReader, facts: WireFacts
    ) -> None:
        """Some servers close kept connections unannounced: the request is then sent once more.

        The SDK's client does not tell kept connections from new ones, so any that is lost before
        the first byte of an answer is taken for a kept one; a second loss is the server's.
        """
        try:
            self._post(request, reader, facts)
        except openai.APIConnectionError as error:
            if facts.headers or not _is_any(error, _LOST):
                raise
            facts.reconnects = 1
            self._post(request, reader, facts)

    def _post(self, request: ChatRequest, reader: ReplyReader, facts: WireFacts) -> None:
        body: dict[str, Any] = json.loads(request.body)
        call = self._client.chat.completions.with_streaming_response.create(
            model=body.pop("model"),
            messages=body.pop("messages"),
            stream=body.pop("stream", False),
            extra_body=body,
            extra_headers={**self._identity(request), **self._authorization},
        )
        with call as response:
            facts.headers = {name.lower(): value for name, value in response.headers.items()}
            content_type = facts.headers.get("content-type")
            reader.begin(response.status_code, content_type, self._elapsed_s(facts))
            if "text/event-stream" in (content_type or ""):
                self._read_events(response.iter_bytes(), reader, facts)
                return
            whole = response.read()
            facts.received_bytes = len(whole)
            reader.feed(whole, self._elapsed_s(facts))

    def _identity(self, request: ChatRequest) -> dict[str, str]:
        """What names one attempt; a user's own header takes the place of ours."""
        own = {"X-Request-Id": request.request_id, "traceparent": request.traceparent}
        return {
            name: value
            for name, value in own.items()
            if value is not None and name.lower() not in self._given
        }

    def _read_events(self, pieces: Iterator[bytes], reader: ReplyReader, facts: WireFacts) -> None:
        source = _Source(pieces, facts)
        for event in SSEClient(source).events():
            now_s = self._elapsed_s(facts)
            reader.feed_payload(event.data.encode(), now_s)
            if reader.done and not facts.end_s:
                facts.end_s = now_s
                # What follows is only the body's end, read so that the connection is kept.
                continue
            self._deadlines.remaining_s(now_s, reader.started, reader.last_output_s or 0.0)

    def _limit_connecting(self, request: httpx2.Request) -> None:
        if self._limits.connect_s is not None:
            self._end_opening()
            self._opening.limit = _ConnectLimit(self._limits.connect_s)
            request.extensions["trace"] = self._opening.limit.trace

    def _end_opening(self) -> None:
        limit: _ConnectLimit | None = getattr(self._opening, "limit", None)
        if limit is not None:
            limit.end()

    @staticmethod
    def _elapsed_s(facts: WireFacts) -> float:
        return time.perf_counter() - facts.sent_at_s

    def _failure(
        self, error: Exception, reader: ReplyReader, facts: WireFacts
    ) -> WireFailure | None:
        if reader.done:
            return None
        text = f"{type(error).__name__}: {error}"
        cause = _innermost(error)
        if isinstance(cause, ssl.SSLError) and not facts.headers:
            return WireFailure(Outcome.TLS_ERROR, f"{type(cause).__name__}: {cause}")
        proxy = proxy_of(self._endpoint)
        if proxy is not None and _is_any(error, httpx2.ProxyError):
            refusal = proxy.refusal(str(cause), self._endpoint)
            return WireFailure(Outcome.CONNECT_ERROR, f"{ProxyError.__name__}: {refusal}")
        if _is_any(error, httpx2.ConnectTimeout):
            return WireFailure(Outcome.CONNECT_TIMEOUT, text)
        if _is_any(error, httpx2.ConnectError):
            if proxy is not None:
                text = f"{ProxyError.__name__}: {proxy} cannot be reached: {cause}"
                return WireFailure(Outcome.CONNECT_ERROR, text)
            return WireFailure(Outcome.CONNECT_ERROR, f"{type(cause).__name__}: {cause}")
        if _is_any(error, httpx2.TimeoutException):
            limit = self._deadlines.reached(
                self._elapsed_s(facts), reader.started, reader.last_output_s or 0.0
            )
            return WireFailure(limit.outcome, limit.message)
        return WireFailure(Outcome.INTERRUPTED, text)


class _ConnectLimitReached(gevent.Timeout):
    """No connection within the limit."""


class _ConnectLimit:
    """One limit over name, TCP, the proxy's tunnel and TLS; httpx2 has one for each step."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: gevent.Timeout | None = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpx2's hook into the steps of one request."""
        if event.endswith("connect_tcp.started"):
            self._running = _ConnectLimitReached.start_new(self._limit_s)
        elif event.endswith(".failed") or _sends_the_request(event, info):
            self.end()

    def end(self) -> None:
        """Nothing is opened any more: what the greenlet does next is not limited."""
        if self._running is not None:
            self._running.close()
            self._running = None


def _sends_the_request(event: str, info: Mapping[str, Any]) -> bool:
    """Whether the connection is open: asking the proxy for a tunnel is still a part of opening."""
    sends = event.endswith("send_request_headers.started")
    return sends and info["request"].method != b"CONNECT"


class _Source:
    """The iterable with ``close()`` that sseclient-py reads from."""

    def __init__(self, pieces: Iterator[bytes], facts: WireFacts) -> None:
        self._pieces = pieces
        self._facts = facts

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._facts.received_bytes += len(piece)
            yield piece

    def close(self) -> None:
        """Nothing to do: the response is closed by its own context."""


def _proxy(endpoint: ChatEndpoint) -> httpx2.Proxy | None:
    proxy = proxy_of(endpoint)
    if proxy is None:
        return None
    given = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
    return httpx2.Proxy(proxy.url, headers=given)


def _read_error(error: openai.APIStatusError, reader: ReplyReader, facts: WireFacts) -> None:
    response = error.response
    facts.headers = {name.lower(): value for name, value in response.headers.items()}
    elapsed_s = time.perf_counter() - facts.sent_at_s
    reader.begin(response.status_code, facts.headers.get("content-type"), elapsed_s)
    body = response.read()
    facts.received_bytes = len(body)
    reader.feed(body, elapsed_s)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _innermost(error: BaseException) -> BaseException:
    return list(_chain(error))[-1]


def _is_any(
    error: BaseException, kind: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    return any(isinstance(link, kind) for link in _chain(error))


def _query_pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield name, value
