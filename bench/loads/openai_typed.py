"""Measures the openai SDK's typed stream under gevent, with one client for all streams."""

import time
from urllib.parse import parse_qsl, urlsplit

import openai

from bench.loads.gauge import Gauge, read_orders
from bench.loads.green import drive

orders = read_orders()
gauge = Gauge()
parts = urlsplit(orders.url)
client = openai.OpenAI(
    api_key="none",
    base_url=f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/chat/completions')}",
    default_query=dict(parse_qsl(parts.query)),
    max_retries=0,
    timeout=120,
)
body = orders.body()
body["extra_body"] = {"ignore_eos": body.pop("ignore_eos")}


def ask() -> None:
    first = True
    for chunk in client.chat.completions.create(**body):
        if not (chunk.choices and chunk.choices[0].delta.content):
            continue
        gauge.events += 1
        if first and chunk.model_extra and "t" in chunk.model_extra:
            gauge.stamp_errors_s.append(time.perf_counter() - chunk.model_extra["t"] / 1e9)
        first = False
    gauge.answers += 1


drive(orders, gauge, lambda: ask, lambda: gauge.events)
