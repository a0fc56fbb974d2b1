"""Opens the transports that a run's kinds of user speak through: one each per process."""

from collections.abc import Callable
from functools import partial

from settings import Settings
from users.connections import tls_context
from users.fast_http import FastHttpTransport
from users.proxy import by_proxy, proxy_headers
from users.sdk import SdkTransport
from users.secrets import Secrets
from users.stamped_http import StampedTransport
from users.wire import ChatTransport
from workloads.traffic import TrafficKind


def open_transports(settings: Settings, secrets: Secrets) -> dict[TrafficKind, ChatTransport]:
    """The transports of every kind of user that the run's traffic names.

    Raises:
        SettingsError: ``--ca-file`` cannot be used.
    """
    tls = tls_context(settings.ca_file, settings.insecure) if settings.endpoint.tls else None
    endpoint = by_proxy(settings.endpoint, secrets.proxy)
    headers = {**secrets.request_headers(), **proxy_headers(endpoint)}
    arguments = (endpoint, headers, settings.limits, tls)
    kinds = {share.kind for share in settings.traffic}
    makers: dict[TrafficKind, Callable[..., ChatTransport]] = {
        **_TRANSPORTS,
        TrafficKind.STREAM: partial(StampedTransport, gap_sample=settings.gap_sample),
    }
    return {kind: makers[kind](*arguments) for kind in kinds}


_TRANSPORTS: dict[TrafficKind, Callable[..., ChatTransport]] = {
    TrafficKind.BLOCK: FastHttpTransport,
    TrafficKind.SDK: SdkTransport,
}
