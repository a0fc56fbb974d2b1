"""Opens the transports that a run's kinds of user speak through: one each per process."""

from settings import Settings
from users.connections import tls_context
from users.fast_http import FastHttpTransport
from users.sdk import SdkTransport
from users.secrets import Secrets
from users.wire import ChatTransport
from workloads.traffic import TrafficKind


def open_transports(settings: Settings, secrets: Secrets) -> dict[TrafficKind, ChatTransport]:
    """The transports of every kind of user that the run's traffic names.

    Raises:
        SettingsError: ``--ca-file`` cannot be used.
    """
    tls = tls_context(settings.ca_file, settings.insecure) if settings.endpoint.tls else None
    headers = secrets.request_headers()
    arguments = (settings.endpoint, headers, settings.limits, tls)
    fast_http = FastHttpTransport(*arguments)
    kinds = {share.kind for share in settings.traffic}
    return {
        kind: SdkTransport(*arguments) if kind is TrafficKind.SDK else fast_http for kind in kinds
    }
