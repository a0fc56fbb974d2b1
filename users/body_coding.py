"""Undoes a response body's compression, in pieces of bounded size."""

import zlib
from collections.abc import Iterator
from typing import Any

PIECE_BYTES = 1 << 20
"""Most that one step gives: a small body may stand for gigabytes."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
CODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class CodingError(ValueError):
    """The body's compression is broken."""


class Decoder:
    """Decodes one body; ``whole`` says whether it may end here.

    A gzip body may have several members. ``deflate`` means zlib, and many servers send it raw.
    """

    def __init__(self, coding: str) -> None:
        self._bits = CODINGS[coding]
        self._decoder: Any = zlib.decompressobj(self._bits)
        self._begun = False

    @property
    def whole(self) -> bool:
        """Whether no member is under way; true before the first byte."""
        return bool(self._decoder.eof) or not self._begun

    def decode(self, data: bytes) -> Iterator[bytes]:
        """What the data stands for.

        Raises:
            CodingError: it stands for nothing.
        """
        while data:
            if self._decoder.eof:
                self._decoder = zlib.decompressobj(self._bits)
            try:
                piece = self._decoder.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                if self._bits != _ZLIB or self._begun:
                    raise CodingError(str(error)) from None
                self._bits = _RAW
                self._decoder = zlib.decompressobj(_RAW)
                continue
            self._begun = True
            if piece:
                yield piece
            data = self._decoder.unused_data or self._decoder.unconsumed_tail
