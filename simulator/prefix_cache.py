"""Which leading blocks of a prompt the server has computed before.

As in paged serving engines, a prompt is cut into blocks of fixed size and a block's key depends on
everything before it, so equal keys mean equal prefixes.  A partly filled last block is never kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

BlockKey = bytes


def block_keys(tokens: Sequence[str], block_tokens: int) -> tuple[BlockKey, ...]:
    """Keys of the full blocks of `tokens`, in order."""
    keys: list[BlockKey] = []
    parent = b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        block = "\0".join(tokens[end - block_tokens : end]).encode("utf-8", "surrogatepass")
        parent = blake2b(parent + block, digest_size=16).digest()
        keys.append(parent)
    return tuple(keys)


class PrefixCache:
    """Least recently used set of blocks, `capacity_blocks` at most."""

    def __init__(self, capacity_blocks: int) -> None:
        self._capacity_blocks = capacity_blocks
        self._blocks: OrderedDict[BlockKey, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def hit_blocks(self, keys: Sequence[BlockKey]) -> int:
        """Number of leading `keys` that are held; they become the most recently used."""
        hits = 0
        for key in keys:
            if key not in self._blocks:
                break
            hits += 1
        self._touch(keys[:hits])
        return hits

    def add(self, keys: Sequence[BlockKey]) -> None:
        """Hold `keys`, dropping the least recently used blocks beyond the capacity."""
        for key in keys:
            self._blocks[key] = None
        self._touch(keys)
        while len(self._blocks) > self._capacity_blocks:
            self._blocks.popitem(last=False)

    def _touch(self, keys: Sequence[BlockKey]) -> None:
        # From the tail to the head, so that eviction takes a prefix from its end: a head that
        # goes first would leave its successors in memory and beyond reach.
        for key in reversed(keys):
            self._blocks.move_to_end(key)
