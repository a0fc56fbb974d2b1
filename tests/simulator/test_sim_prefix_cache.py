"""Prefix cache: keys, hits, eviction, and what the engine makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.engine import Engine
from simulator.events import AdmitEvent, EngineRequest, TokenEvent
from simulator.prefix_cache import PrefixCache, block_keys
from simulator.profile import PROFILES

WORDS = [f"w{i}" for i in range(100)]
CACHED = replace(PROFILES["small"], jitter_ratio=0.0)


def test_only_full_blocks_have_keys():
    """100 tokens hold six blocks of 16."""
    assert len(block_keys(WORDS, 16)) == 6


def test_keys_agree_exactly_as_far_as_the_prefix_does():
    """A change in the third block changes its key and all later ones."""
    other = [*WORDS[:40], "changed", *WORDS[41:]]
    pairs = zip(block_keys(WORDS, 16), block_keys(other, 16), strict=True)

    assert [mine == theirs for mine, theirs in pairs] == [True, True, False, False, False, False]


def test_a_hit_ends_at_the_first_missing_block():
    """Blocks beyond a gap are of no use."""
    keys = block_keys(WORDS, 16)
    cache = PrefixCache(10)
    cache.add((*keys[:2], *keys[3:]))

    assert cache.hit_blocks(keys) == 2


def test_the_least_recently_used_prefix_is_evicted_from_its_end():
    """Of two prefixes the unused one shrinks, tail first."""
    mine, theirs = block_keys(WORDS, 16), block_keys(WORDS[::-1], 16)
    cache = PrefixCache(8)
    cache.add(theirs[:4])
    cache.add(mine[:4])
    cache.hit_blocks(theirs)
    cache.add(block_keys(["new"] * 32, 16))

    assert len(cache) == 8
    assert cache.hit_blocks(theirs) == 4
    assert cache.hit_blocks(mine) == 2


def run_prompt(engine: Engine, name: str, words: list[str], at_s: float) -> tuple[int, float]:
    """Cached tokens and time to the first token."""
    engine.submit(EngineRequest(name, len(words), 1, block_keys(words, 16)), at_s)
    events = engine.advance(at_s + 10)
    admitted = next(event for event in events if isinstance(event, AdmitEvent))
    token = next(event for event in events if isinstance(event, TokenEvent))
    return admitted.cached_tokens, token.since_previous_s


def test_a_repeated_prompt_skips_the_prefill_of_its_full_blocks():
    """Cached tokens cost nothing: 96 of 100 are found, 4 are computed."""
    engine = Engine(CACHED)
    cold = run_prompt(engine, "a", WORDS, 0.0)
    warm = run_prompt(engine, "b", WORDS, 100.0)

    assert cold == (0, pytest.approx(0.0286 + 100 / 10_000))
    assert warm == (96, pytest.approx(0.0286 + 4 / 10_000))
    assert engine.counters.prefix_query_tokens == 200
    assert engine.counters.prefix_hit_tokens == 96


def test_a_wholly_cached_prompt_still_computes_its_last_block():
    """Without computing a token there is no next one: 96 tokens give 80 cached."""
    engine = Engine(CACHED)
    run_prompt(engine, "a", WORDS[:96], 0.0)

    assert run_prompt(engine, "b", WORDS[:96], 100.0)[0] == 80


def test_a_shared_system_prefix_hits_across_different_questions():
    """Only the common full blocks count."""
    engine = Engine(CACHED)
    run_prompt(engine, "a", [*WORDS[:50], "one"], 0.0)

    assert run_prompt(engine, "b", [*WORDS[:50], "two"], 100.0)[0] == 48


def test_no_prefix_is_found_before_it_was_computed():
    """Two equal prompts in the same step both pay."""
    engine = Engine(CACHED)
    for name in ("a", "b"):
        engine.submit(EngineRequest(name, 100, 1, block_keys(WORDS, 16)), 0.0)
    events = engine.advance(10.0)

    assert [e.cached_tokens for e in events if isinstance(e, AdmitEvent)] == [0, 0]


def test_without_the_cache_nothing_is_looked_up():
    """The switch also stops the counting."""
    engine = Engine(replace(CACHED, prefix_cache=False))
    run_prompt(engine, "a", WORDS, 0.0)

    assert run_prompt(engine, "b", WORDS, 100.0)[0] == 0
    assert engine.counters.prefix_query_tokens == 0
