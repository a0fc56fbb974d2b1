"""What bounds the attempts under way on one process: slots, taken in the order of asking."""

from collections import OrderedDict

from gevent.event import Event


class _Turn:
    """One that waits for a slot."""

    __slots__ = ("granted", "wake")

    def __init__(self) -> None:
        self.wake = Event()
        self.granted = False


class Slots:
    """So many attempts at once; those beyond wait, and are let in first come, first served.

    Waiting costs nothing, because an open loop may have thousands that wait.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: OrderedDict[_Turn, None] = OrderedDict()
        self._by_leaving: dict[Event, set[_Turn]] = {}

    def take(self, leaving: Event | None) -> bool:
        """Wait for a slot; False when ``leaving`` was set before there was one."""
        if self._free:
            self._free -= 1
            return True
        if leaving is not None and leaving.is_set():
            return False
        turn = self._queue_up(leaving)
        try:
            turn.wake.wait()
        except BaseException:
            if turn.granted:
                self.release()
            raise
        finally:
            self._step_out(turn, leaving)
        return turn.granted

    def release(self) -> None:
        """Hand a slot on to who has waited longest, or keep it."""
        if self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            turn.granted = True
            turn.wake.set()
        else:
            self._free += 1

    def _queue_up(self, leaving: Event | None) -> _Turn:
        turn = _Turn()
        self._waiting[turn] = None
        if leaving is not None:
            if leaving not in self._by_leaving:
                self._by_leaving[leaving] = set()
                leaving.rawlink(self._let_go)
            self._by_leaving[leaving].add(turn)
        return turn

    def _step_out(self, turn: _Turn, leaving: Event | None) -> None:
        self._waiting.pop(turn, None)
        if leaving is None:
            return
        others = self._by_leaving.get(leaving)
        if others is not None:
            others.discard(turn)
            if not others:
                del self._by_leaving[leaving]
                leaving.unlink(self._let_go)

    def _let_go(self, leaving: Event) -> None:
        for turn in self._by_leaving.get(leaving, ()):
            turn.wake.set()
