"""A pseudo-tokeniser that anyone can recount by hand, and the words of the replies.

A token is a run of word characters or a run of punctuation; spaces separate and are free.
A message costs `MESSAGE_OVERHEAD_TOKENS` more, as the markers of a chat template do.
Replies are built of single-token words, so a reply costs the same when it comes back as history.
"""

from __future__ import annotations

import math
import random
import re
from hashlib import blake2b

MESSAGE_OVERHEAD_TOKENS = 3

_TOKEN = re.compile(r"\w+|[^\w\s]+")

# A few words outside ASCII: a client that cuts UTF-8 in the wrong place should meet them here.
_WORD_LIST = """
    able about above across after again air all alone along amber and answer any apple arch around
    ask autumn away back bank bark basin bay be bean bell below bench beside best birch bird blue
    boat book both box branch bread bridge bright bring brook brown build but butter by café call
    calm can candle care carry cedar chair chalk cherry clay clear climb clock cloud coast coin cold
    come copper corner could count crow cup dark dawn day deep door down draw dream drift dry each
    early earth east easy edge elm end even every eye fair fall far farm fast father feather few
    field fig fire first fish flat floor flow fog follow for forest fox fresh friend from frost
    fruit full garden gate gentle give glass go gold good grain grass gray green grove half hand
    harbor hat have hay hear heavy hill hold home honey hour house how ice if in ink iron island
    ivy jar jay just keep kind kitchen know lake lamp large last late leaf learn left lemon let
    light like lime linen listen little long look loud low made maple march mark may meadow meet
    mild mill mint mist moon moss most mother much music naïve name near nest new next night north
    not now oak oat of old olive on once one open or other our out over own paper part past path
    pear pebble pine place plain plant plum pond poplar port quick quiet rain reach read red reed
    rest ring ripe rise river road rock roof room root rope rose round row rye salt same sand say
    sea seed see send shade shell shore short side silk silver simple sing sky sleep slow small
    smoke snow so soft soil some song south spring stair star stay step still stone story straw
    stream summer sun sweet table take tall tea tell than that then thin thread tide time to tree
    true turn under until up valley very view wait walk wall warm water wave way well west what
    wheat when where white wide willow wind window winter with wood wool word work yard year yellow
    yes yet young Zürich 数据 слово
"""
_WORDS = tuple(_WORD_LIST.split())


def tokenize(text: str) -> list[str]:
    """Tokens of a text, in order."""
    return _TOKEN.findall(text)


def message_tokens(role: str, text: str) -> list[str]:
    """Tokens of one chat message with the markers around it."""
    return ["<", role, *tokenize(text), ">"]


def reply_rng(seed: int, fingerprint: bytes) -> random.Random:
    """Chance for one reply: the same seed and request always give the same stream of numbers."""
    digest = blake2b(fingerprint, digest_size=16, key=str(seed).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def natural_tokens(rng: random.Random, mean_tokens: float) -> int:
    """Length at which a reply ends by itself: geometric, at least 1, mean `mean_tokens`."""
    if mean_tokens <= 1.0:
        return 1
    return 1 + math.floor(math.log(1.0 - rng.random()) / math.log(1.0 - 1.0 / mean_tokens))


def reply_words(rng: random.Random, count: int) -> list[str]:
    """`count` words, one token each; all but the first carry the space before them."""
    words = rng.choices(_WORDS, k=count)
    return [words[0], *(f" {word}" for word in words[1:])] if words else []
