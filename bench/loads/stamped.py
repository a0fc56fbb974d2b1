"""Measures the streaming transport with kernel stamps."""

from bench.loads.transport import main
from users.stamped_http import StampedTransport

main(StampedTransport)
