"""Scripts of the sections F (framing), P (chunk content), M (metrics): what a 200 body may be."""

import zlib
from typing import Any

from tests.support.case_notation import (
    Ask,
    C,
    Case,
    D,
    F,
    Framing,
    R,
    Script,
    Step,
    T,
    U,
    at,
    choice,
    completion,
    content,
    cycle,
    event,
    plain,
    stream,
    usage,
)

SQUID = "Zoë 東京 🦑"
GOOD = stream(R, at(50, C("sea")), at(80, C(" salt"), F(), U(9, 2), D))
GOOD_300 = stream(R, at(150, C("sea")), at(300, C(" salt"), F(), U(9, 2), D))


def byte_by_byte(body: bytes, every_ms: float) -> Script:
    """Each byte in a write of its own."""
    return Script(steps=tuple(Step(i * every_ms, body[i : i + 1]) for i in range(len(body))))


def cut_after(body: bytes, *marks: int) -> Script:
    """A new write after each of these byte values."""
    pieces: list[bytes] = [b""]
    for value in body:
        pieces[-1] += bytes((value,))
        if value in marks:
            pieces.append(b"")
    return Script(steps=tuple(Step(20 * i, piece) for i, piece in enumerate(pieces) if piece))


_F03 = C(SQUID) + F() + U(8, 6) + D
_THREE = (at(100, C("one")), at(200, C(" two")), at(300, C(" three"), F(), U(5, 3), D))


def _f13_a(ask: Ask) -> Script:
    if "gzip" not in ask.headers.get("accept-encoding", ""):
        return stream(*_THREE)
    packed = zlib.compressobj(wbits=31)
    body = packed.compress(stream(*_THREE).body) + packed.flush()
    return Script(steps=(Step(300, body),), headers=(("Content-Encoding", "gzip"),))


def _f13_b() -> Script:
    packed = zlib.compressobj(wbits=31)
    steps = [
        Step(step.at_ms, packed.compress(step.data) + packed.flush(zlib.Z_SYNC_FLUSH))
        for step in _THREE
    ]
    end = Step(steps[-1].at_ms, packed.flush())
    return Script(steps=(*steps, end), headers=(("Content-Encoding", "gzip"),))


_F15 = (
    stream(framing=Framing.LENGTH),
    stream(D),
    stream(R, F(), D),
)

FRAMING: dict[str, Case] = {
    "F01": stream(
        R.replace(b"data: ", b"data:"),
        event(content("kelp"), space=""),
        at(60, event(content(" soup"), space="   ")),
        event(choice({}, "stop"), space=""),
        event({"choices": [], "usage": usage(9, 2)}, space=""),
        b"data:[DONE]\n\n",
    ),
    "F03": byte_by_byte(_F03, 1),
    "F03_cuts": cut_after(_F03, 0xE6, 0x9F),
    "F05": stream(
        *(at(ms, b": OPENROUTER PROCESSING\n\n") for ms in (0, 300, 600)),
        at(850, R),
        at(900, C("ok"), F(), U(4, 1), D),
    ),
    "F07": stream(
        at(50, b"data: : keepalive\n\n"),
        at(60, b"data:\n\n"),
        at(70, b'data: ""\n\n'),
        at(200, C("fig"), F(), U(2, 1), D),
    ),
    "F08_a": stream(C("a"), b"data: {}\n\n", b"data: null\n\n", C("b"), F(), U(3, 2), D),
    "F08_b": stream(C("a"), b'data: {"choices":[{"de\n\n', C("b"), F(), D),
    "F09": stream(
        b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"plum"},\n'
        b'data: "finish_reason":null}]}\n\n',
        F(),
        U(2, 1),
        D,
    ),
    "F10": stream(
        b"\xef\xbb\xbfretry: 3000\nevent: message\n",
        C("oat"),
        F(),
        b": cost=0.1\n: model=m\n",
        D,
    ),
    "F12": stream(R, at(100, C("a"), F(), U(2, 1)), at(150, D), hold_open_s=20),
    "F13_a": _f13_a,
    "F13_b": _f13_b(),
    "F14": plain(completion("mint tea", 7, 2), at_ms=400),
    "F15": cycle(GOOD_300, *_F15, GOOD_300, *_F15, GOOD_300, GOOD_300),
    "F15_a": _F15[0],
    "F15_b": _F15[1],
    "F15_c": _F15[2],
}


def _p09(role: dict[str, Any]) -> Script:
    return stream(
        at(5, event(choice(role))), at(250, C("elm")), at(270, C(" ash"), F(), U(3, 2), D)
    )


def _p12() -> Script:
    chunks: list[dict[str, Any]] = [
        choice({"role": "assistant", "content": ""}),
        content("bay"),
        choice({}, "stop"),
        choice(None, "stop"),
        {"choices": None},
    ]
    nulls = b"".join(event({**chunk, "usage": None}) for chunk in chunks)
    return stream(at(20, nulls), U(2, 1, prompt_tokens_details=None), D)


def _p15(**members: object) -> Script:
    return stream(R, C("hay"), F(), U(128, 1, **members), D)


_P08_USAGE = stream(at(20, C("a")), C("b"), C("c"), C("d"), C("e"), F(), U(9, 5), D)
_P08_NONE = stream(at(20, C("a")), C("b"), C("c"), C("d"), C("e"), F(), D)
_P14 = [stream(C("la "), F(r), U(8, n), D) for r, n in [("length", 64), ("stop", 5)]]
_P14.append(stream(C("la "), F("content_filter"), U(8, 3), D))
_P15 = {
    "a": _p15(prompt_tokens_details={"cached_tokens": 96}),
    "b": _p15(prompt_cache_hit_tokens=96, prompt_cache_miss_tokens=32),
    "c": _p15(prompt_tokens_details=None),
    "d": _p15(),
    "e": _p15(prompt_tokens_details={"cached_tokens": 96}, prompt_cache_hit_tokens=96),
    "f": _p15(prompt_tokens_details={"cached_tokens": 0}),
}
_TIDE = {"name": "tide", "arguments": ""}


def _call(**members: object) -> bytes:
    return event(choice({"tool_calls": [{"index": 0, **members}]}))


CONTENT: dict[str, Case] = {
    "P01": stream(R, at(30, C("sea")), C(" salt"), F(), U(11, 2), D),
    "P01_missing": stream(
        R,
        at(30, C("sea")),
        C(" salt"),
        F(),
        event({"object": "chat.completion.chunk", "usage": usage(11, 2)}),
        D,
    ),
    "P03": stream(
        at(
            40,
            event(
                {
                    "choices": [],
                    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
                }
            ),
        ),
        at(300, R),
        at(320, C("dune"), F(), U(5, 1), D),
    ),
    "P07": stream(
        *(event({**content(f"w{n} "), "usage": usage(20, n)}) for n in range(1, 5)),
        F(),
        U(20, 4),
        D,
    ),
    "P08": cycle(*[_P08_USAGE] * 3, *[_P08_NONE] * 2),
    "P08_none": _P08_NONE,
    "P08_spaces": stream(*(at(10 * n, C(" ")) for n in range(1, 101)), F("length"), U(5, 100), D),
    "P09_empty": _p09({"role": "assistant", "content": ""}),
    "P09_null": _p09({"role": "assistant", "content": None}),
    "P09_missing": _p09({"role": "assistant"}),
    "P10": stream(at(80, T("hm")), at(100, T("..")), at(900, C("7"), F(), U(9, 3), D)),
    "P10_only": stream(
        at(80, T("hm", key="reasoning")),
        at(100, T("..", key="reasoning"), F("length"), U(9, 16), D),
    ),
    "P11": stream(
        at(10, R),
        at(120, _call(id="t1", type="function", function=_TIDE)),
        at(160, _call(function={"arguments": '{"port":'})),
        at(200, _call(function={"arguments": '"K"}'}), F("tool_calls"), U(30, 9), D),
    ),
    "P12": _p12(),
    "P13": stream(
        at(100, C("a", 0)),
        at(110, C("x", 1)),
        at(200, C("b", 0)),
        at(210, C("y", 1)),
        at(220, F("stop", 0)),
        at(300, C("z", 1)),
        at(310, F("stop", 1), U(5, 5), D),
    ),
    "P14": cycle(*[_P14[0]] * 7, *[_P14[1]] * 2, _P14[2]),
    "P15": cycle(*_P15.values()),
    **{f"P15_{name}": script for name, script in _P15.items()},
}

_M11_STREAM = stream(R, at(50, C("quick")), at(120, C(" fox"), F(), U(6, 2), D))


def _m11(ask: Ask) -> Script:
    if ask.members.get("stream"):
        return _M11_STREAM
    return plain(completion("quick fox", 6, 2), at_ms=2500)


def _m19(stall_ms: float) -> Script:
    steps = (at(20 * (n + 1) + (stall_ms if n >= 25 else 0), C("x")) for n in range(50))
    return stream(*steps, F("length"), U(4, 50), D)


METRICS: dict[str, Case] = {
    "M01": stream(*(at(ms, C("tick tock tick tock ")) for ms in (100, 200, 300)), F(), U(9, 12), D),
    "M03": stream(at(40, C("y"), F("length"), U(512, 1), D)),
    "M11": _m11,
    "M17": stream(at(6, R), at(500, C("go")), at(900, C("al"), F(), U(3, 2), D), head_at_ms=5),
    "M19": cycle(*[_m19(0)] * 19, _m19(2000)),
    "M19_stall": _m19(2000),
    "good": GOOD,
}
