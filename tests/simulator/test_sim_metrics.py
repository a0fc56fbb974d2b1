"""The metrics page, filled by a run in virtual time."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from simulator.engine import Engine
from simulator.events import EngineRequest
from simulator.metrics_page import MetricsPage
from simulator.profile import Profile

PROFILE = Profile(
    name="metrics",
    max_num_seqs=2,
    prefill_tokens_per_s=math.inf,
    decode_base_s=0.03,
    decode_per_seq_s=0.0,
    kv_tokens=1000,
    max_model_len_tokens=1000,
)


def samples(page: MetricsPage) -> dict[tuple[str, str | None], float]:
    """Values by name and `le` or `finished_reason`; every sample must carry the model."""
    values = {}
    for family in text_string_to_metric_families(page.render()):
        for sample in family.samples:
            assert sample.labels["model_name"] == 'a "quoted" model'
            key = sample.labels.get("le") or sample.labels.get("finished_reason")
            values[sample.name, key] = sample.value
    return values


def test_the_page_tells_what_the_engine_did():
    """Three requests over two slots: the third waits ten steps of 30 ms."""
    engine = Engine(PROFILE)
    page = MetricsPage(engine, 'a "quoted" model')
    for name in ("a", "b", "c"):
        engine.submit(EngineRequest(name, prompt_tokens=100, output_tokens=10), 0.0)
    page.observe(engine.advance(0.05))
    halfway = samples(page)
    page.observe(engine.advance(10.0))
    page.count_finished("stop")
    at_end = samples(page)

    assert halfway["vllm:num_requests_running", None] == 2
    assert halfway["vllm:num_requests_waiting", None] == 1
    assert halfway["vllm:kv_cache_usage_perc", None] == pytest.approx(0.204)
    assert at_end["vllm:num_requests_running", None] == 0
    assert at_end["vllm:prompt_tokens_total", None] == 300
    assert at_end["vllm:generation_tokens_total", None] == 30
    assert at_end["vllm:request_success_total", "stop"] == 1
    assert at_end["vllm:request_success_total", "abort"] == 0
    assert at_end["vllm:time_to_first_token_seconds_count", None] == 3
    assert at_end["vllm:time_to_first_token_seconds_sum", None] == pytest.approx(0.39)
    assert at_end["vllm:time_to_first_token_seconds_bucket", "0.04"] == 2
    assert at_end["vllm:inter_token_latency_seconds_count", None] == 27
    assert at_end["vllm:inter_token_latency_seconds_bucket", "0.025"] == 0
    assert at_end["vllm:inter_token_latency_seconds_bucket", "+Inf"] == 27
    assert at_end["vllm:request_queue_time_seconds_sum", None] == pytest.approx(0.3)
    assert at_end["vllm:e2e_request_latency_seconds_sum", None] == pytest.approx(1.2)
