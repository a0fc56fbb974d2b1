"""Which streams are read chunk by chunk; the others give TTFT, end and tokens, but no gaps."""

from dataclasses import dataclass
from typing import Self

AUTO_FULL_STREAMS = 200
"""Up to so many open streams of one process every chunk is read: it costs a fraction of a core."""
AUTO_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class GapSample:
    """A fixed share of the streams; without one, all while they are few and a tenth beyond."""

    fixed_share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """``auto``, a share such as ``0.1``, or ``10%``.

        Raises:
            ValueError: it is none of these, or no share of 0 to 1.
        """
        word = text.strip().lower()
        if word == "auto":
            return cls()
        try:
            share = float(word.removesuffix("%")) / (100.0 if word.endswith("%") else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 <= share <= 1.0:
            raise ValueError("write auto, or a share such as 0.1 or 10%")
        return cls(share)

    def share(self, open_streams: int) -> float:
        """The share to read chunk by chunk when so many streams are open."""
        if self.fixed_share is not None:
            return self.fixed_share
        return 1.0 if open_streams < AUTO_FULL_STREAMS else AUTO_SHARE
