"""Files that are whole or not there: a reader never sees half of one."""

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Write, and put it in place of what is there; a text may hold what UTF-8 cannot say.

    Raises:
        OSError: it cannot be written, with the path; what was there stays.
    """
    # A name from a server may hold half a surrogate pair.
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    unfinished = path.with_name(path.name + ".partial")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
