"""The kernel's account of a process's memory, out of ``/proc``. Linux only.

``ru_maxrss`` would include the process that started the one asked about.
"""

from pathlib import Path


def status_bytes(name: str, pid: int | None = None) -> int:
    """``VmRSS`` is resident now, ``VmHWM`` at most so far; of this process without a ``pid``.

    Raises:
        ProcessLookupError: the process has ended.
    """
    status = Path("/proc", "self" if pid is None else str(pid), "status")
    for line in status.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise ProcessLookupError(f"process {pid} has ended")
