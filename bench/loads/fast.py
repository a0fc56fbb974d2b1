"""Measures the transport over geventhttpclient."""

from bench.loads.transport import main
from users.fast_http import FastHttpTransport

main(FastHttpTransport)
