"""Server text made fit to be kept: secrets masked, one short line."""

import re
from collections.abc import Iterable

MASK = "***"
SAMPLE_CHARS = 160

_KEY_LIKE = re.compile(r"(?i)\b(?:sk-|bearer\s+)[A-Za-z0-9._~+/=\-]{6,}")
_MARKUP = re.compile(r"(?s)<(?:script|style).*?</(?:script|style)>|<[^>]{0,2000}>")


class Masker:
    """Masks known secrets and what looks like a key."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def mask(self, text: str) -> str:
        """The text with every secret replaced."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return _KEY_LIKE.sub(MASK, text)

    def sample(self, text: str) -> str:
        """One short line of the text: masked, without markup, control characters and line ends."""
        plain = _MARKUP.sub(" ", self.mask(text[: 64 * 1024]))
        line = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
        return line if len(line) <= SAMPLE_CHARS else line[: SAMPLE_CHARS - 3] + "..."
