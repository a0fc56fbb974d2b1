"""Prompts: what is shared is the same everywhere, what is not is never sent twice."""

import random

import pytest

from workloads.lengths import parse_distribution
from workloads.prompts import PromptPlan
from workloads.words import WORDS, filler


def _plan(prefixes=2, prefix_tokens=100, prompt_tokens="200", salt="a", seed=None):
    return PromptPlan.build(
        prefixes=prefixes,
        prefix_tokens=prefix_tokens,
        prompt_tokens=parse_distribution(prompt_tokens),
        salt=salt,
        seed=seed,
    )


def _deal(workers=2, requests=30, **options):
    """The prompts of so many requests of each worker; every worker builds its own plan, as its own
    process would."""
    prompts = []
    for worker in range(workers):
        plan = _plan(**options)
        prompts += [plan.prompt(str(worker + workers * number)) for number in range(requests)]
    return prompts


def _texts(prompts, role):
    return [m.content for prompt in prompts for m in prompt.messages if m.role == role]


@pytest.mark.parametrize("seed", [None, 7], ids=["salt", "seed"])
def test_X01_workers_share_the_prefix_and_nothing_else(seed):
    """4 workers x 25 requests: 1 system message, 100 user messages."""
    prompts = _deal(workers=4, requests=25, prefixes=1, seed=seed)

    assert len(set(_texts(prompts, "system"))) == 1
    assert len(set(_texts(prompts, "user"))) == 100
    assert len({prompt.prompt_id for prompt in prompts}) == 100


def test_X01_unique_texts_differ_from_their_first_characters():
    """No two user messages share the marker that a cache would have to match first."""
    prompts = _deal(workers=4, requests=25)

    assert len({text.split()[0] for text in _texts(prompts, "user")}) == 100


def test_X01_unique_texts_differ_beyond_the_marker():
    """The words themselves are drawn apart: texts differ by more than a number in front."""
    texts = _texts(_deal(workers=4, requests=25), "user")

    assert len({text.partition(" ")[2] for text in texts}) == 100


def test_X01_parts_of_a_name_are_not_run_together():
    """Arrival 11 of step 1 and arrival 1 of step 11 are two requests."""
    plan = _plan()

    assert plan.prompt("1.11").messages != plan.prompt("11.1").messages


def test_X01_a_prompt_follows_from_its_name_alone():
    """Asked for in any order, and once more: nothing that was made before changes it."""
    names = [str(number) for number in range(20)]
    forwards = {name: _plan(prefixes=3).prompt(name) for name in names}
    plan = _plan(prefixes=3)

    assert forwards == {name: plan.prompt(name) for name in [*reversed(names), *names]}


def test_X02_two_salts_share_no_message():
    """A second run with defaults finds nothing of the first in a cache."""
    first, second = _deal(salt="a"), _deal(salt="b")

    assert not set(_texts(first, "user")) & set(_texts(second, "user"))
    assert not set(_texts(first, "system")) & set(_texts(second, "system"))


def test_X02_one_seed_is_one_list():
    """The seed decides the prompt of every request, whatever the run's salt."""
    assert _deal(seed=7, salt="a") == _deal(seed=7, salt="b")


def test_X02_another_seed_is_another_list():
    """Two seeds share no user message."""
    assert not set(_texts(_deal(seed=7), "user")) & set(_texts(_deal(seed=8), "user"))


def test_X03_prefixes_are_the_same_bytes_on_every_worker():
    """2 workers, 3 prefixes, 60 requests: 3 system texts and 3 hashes, on each worker the same."""
    prompts = _deal(workers=2, requests=30, prefixes=3)
    halves = prompts[:30], prompts[30:]

    assert len(set(_texts(prompts, "system"))) == 3
    assert len({prompt.prefix_id for prompt in prompts}) == 3
    assert set(_texts(halves[0], "system")) == set(_texts(halves[1], "system"))


def test_X03_one_character_changes_the_hash():
    """The hash covers the whole text, its last character included."""
    plan = _plan(prefixes=1)
    other = PromptPlan((plan.prefix_texts[0] + " ",), 100, plan.prompt_tokens, plan.salt)

    assert plan.prefix_ids != other.prefix_ids


def test_X03_the_shared_part_comes_first():
    """Nothing that varies stands before the system message."""
    assert {tuple(m.role for m in prompt.messages) for prompt in _deal()} == {("system", "user")}


def test_a_prompt_names_the_prefix_it_carries():
    """The id of a prompt is the hash of its own system message."""
    plan = _plan(prefixes=3)
    by_id = dict(zip(plan.prefix_ids, plan.prefix_texts, strict=True))

    for number in range(30):
        prompt = plan.prompt(str(number))
        assert by_id[prompt.prefix_id] == prompt.messages[0].content


@pytest.mark.parametrize("prompt_tokens", ["1", "2", "13", "uniform:1-50"])
def test_nominal_tokens_are_the_words_sent(prompt_tokens):
    """The nominal length counts the words of all messages, the marker as one."""
    for prompt in _deal(prefixes=1, prefix_tokens=20, prompt_tokens=prompt_tokens):
        words = sum(len(message.content.split()) for message in prompt.messages)
        assert words == prompt.nominal_prompt_tokens


@pytest.mark.parametrize("prefixes", [0, 3])
def test_a_prompts_length_is_known_without_its_text(prefixes):
    """A schedule paced by tokens asks for it: the same as of the prompt that is then sent."""
    plan = _plan(prefixes=prefixes, prompt_tokens="lognormal:p50=50,p90=400")
    for number in range(50):
        prompt = plan.prompt(f"3.{number}")
        assert prompt.nominal_prompt_tokens == plan.nominal_prompt_tokens(f"3.{number}")


def test_the_asked_length_is_the_user_message_alone():
    """200 asked with a prefix of 100 is 300 in all."""
    (prompt,) = _deal(workers=1, requests=1, prefix_tokens=100, prompt_tokens="200")

    assert prompt.nominal_prompt_tokens == 300
    assert len(prompt.messages[0].content.split()) == 100


@pytest.mark.parametrize(
    ("prefixes", "prefix_tokens"), [(0, 100), (2, 0)], ids=["no prefixes", "no tokens"]
)
def test_without_a_prefix_there_is_no_system_message(prefixes, prefix_tokens):
    """Neither an empty system message nor an id of one."""
    (prompt,) = _deal(workers=1, requests=1, prefixes=prefixes, prefix_tokens=prefix_tokens)

    assert [message.role for message in prompt.messages] == ["user"]
    assert prompt.prefix_id is None
    assert prompt.nominal_prompt_tokens == 200


@pytest.mark.parametrize("words", [0, 1, 11, 12, 13, 500])
def test_filler_has_exactly_the_words_asked_for(words):
    """Sentence ends never add or lose a word."""
    assert len(filler(random.Random(5), words).split()) == words


def test_filler_words_are_plain_and_unlike():
    """Every word is short lower-case ASCII, and stands once in the list."""
    assert len(set(WORDS)) == len(WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
