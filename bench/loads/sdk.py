"""Measures the transport over the openai SDK."""

from bench.loads.transport import main
from users.sdk import SdkTransport

main(SdkTransport)
