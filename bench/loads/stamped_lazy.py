"""Measures the streaming transport with lazy reads: TTFT and the end of each stream, no gaps."""

from functools import partial

from bench.loads.transport import main
from stream.gap_sample import GapSample
from users.stamped_http import StampedTransport

main(partial(StampedTransport, gap_sample=GapSample(0.0)))
