"""A closed loop of streams on gevent: each greenlet asks again as soon as its answer is over."""

import gc
from collections.abc import Callable

import gevent

from bench.loads.gauge import Gauge, Orders, leave


def drive(
    orders: Orders, gauge: Gauge, make_ask: Callable[[], Callable[[], None]], events: Callable
) -> None:
    """Run the streams through ramp and window, report, and end the process.

    ``make_ask`` is called once per stream; ``events`` says how many content events there were.
    """
    # As a worker does before its first request.
    gc.collect()
    gc.freeze()
    gauge.note_base()

    def loop(index: int) -> None:
        gevent.sleep(index * orders.ramp_s / orders.streams)
        ask = make_ask()
        while True:
            try:
                ask()
            except Exception as error:
                gauge.fail(repr(error))
                gevent.sleep(0.05)

    for index in range(orders.streams):
        gevent.spawn(loop, index)
    gevent.sleep(1.3 * orders.ramp_s)
    gauge.open_window(events())
    gevent.sleep(orders.window_s)
    gauge.report(orders, events())
    leave()
