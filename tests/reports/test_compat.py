"""A run under the definitions of other tools: their clocks, means, percentiles and windows."""

import json
from pathlib import Path

import pytest

from metrics.outcome import Outcome, TokenSource
from metrics.stage import Phase
from reports.__main__ import main
from reports.faces.compat import held_stage, views_of, whole_run
from reports.load import load_run
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered
from tests.support.schemas import misfits

DOC = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
TOOLS = ("vLLM bench serve", "GuideLLM", "AIPerf")
SCRIPT = {"ttft_s": 0.3, "ttfa_s": 0.4, "last_token_s": 0.5, "end_s": 0.9, "completion_tokens": 4}
"""Role at 100 ms, reasoning at 300, text at 400 and 500, usage of 4 tokens, body's end at 900."""


def views(folder, records, stage=None, **build):
    """The figures of each tool by name."""
    run = load_run(build_run(folder, numbered(records), **build))
    found = views_of(whole_run(run) if stage is None else held_stage(run, stage))
    assert TOOLS == tuple(view.tool for view in found)
    return {view.tool: {figure.name: figure for figure in view.figures} for view in found}, {
        view.tool: view.notes for view in found
    }


def value(figures, tool, name, statistic="mean"):
    return figures[tool][name].values[statistic]


def test_one_stream_has_each_tools_figures(tmp_path):
    """The stream that all of them were shown: what the documentation's table says."""
    found, _ = views(tmp_path / "r", [make_record(**SCRIPT, connection_reused=True)])

    v, g, a = TOOLS
    assert (300, 500) == pytest.approx((value(found, v, "TTFT"), value(found, v, "E2EL")))
    assert 200 / 3 == pytest.approx(value(found, v, "TPOT"))
    assert (300, 400) == pytest.approx((value(found, g, "TTFT"), value(found, g, "TTFOT")))
    assert 0.9 == pytest.approx(value(found, g, "Request latency"))
    assert (200 / 3, 125) == pytest.approx((value(found, g, "ITL"), value(found, g, "TPOT")))
    assert 400 == pytest.approx(value(found, a, "Time to First Output Token"))
    assert 500 == pytest.approx(value(found, a, "Request Latency"))
    assert 15 == pytest.approx(value(found, a, "Output Token Throughput Per User"))
    rows = DOC.read_text(encoding="utf-8")
    assert "| `compat` as vLLM bench serve | 300 ms | 500 ms | TPOT 67 ms |" in rows
    assert "| `compat` as GuideLLM | 300 ms | 900 ms | ITL 67 ms, TPOT 125 ms |" in rows
    assert "| `compat` as AIPerf | 300 ms | 500 ms | ITL 67 ms |" in rows


def test_a_connection_is_in_the_times_of_some_tools(tmp_path):
    """50 ms to connect: in vLLM's and AIPerf's TTFT and latency, not in GuideLLM's, nor in TPOT."""
    found, _ = views(tmp_path / "r", [make_record(**SCRIPT, connect_s=0.05)])
    kept, _ = views(tmp_path / "kept", [make_record(**SCRIPT, connection_reused=True)])

    v, g, a = TOOLS
    assert (350, 550) == pytest.approx((value(found, v, "TTFT"), value(found, v, "E2EL")))
    assert 350 == pytest.approx(value(found, a, "Time to First Token"))
    assert 300 == pytest.approx(value(found, g, "TTFT"))
    assert 200 / 3 == pytest.approx(value(found, v, "TPOT"))
    assert 300 == pytest.approx(value(kept, v, "TTFT"))


def test_a_connection_that_is_not_recorded_is_not_taken_for_none(tmp_path):
    """Opened, and how long it took is unknown: no TTFT that has it in it, and the count is told."""
    found, notes = views(tmp_path / "r", [make_record(**SCRIPT)])

    v, g, _ = TOOLS
    assert (0, None) == (found[v]["TTFT"].n, value(found, v, "TTFT"))
    assert 200 / 3 == pytest.approx(value(found, v, "TPOT"))
    assert 300 == pytest.approx(value(found, g, "TTFT"))
    assert any(note.startswith("1: the opening of the connection") for note in notes[v])
    assert not any("opening of the connection" in note for note in notes[g])


def paced(tokens, per_token_s, **changes):
    """A stream whose first token comes after 0.1 s and each further one at that pace."""
    last_s = 0.1 + per_token_s * (tokens - 1)
    times = {"ttft_s": 0.1, "last_token_s": last_s, "end_s": last_s, "user_latency_s": last_s}
    return make_record(**{**times, "completion_tokens": tokens, "chunks": tokens, **changes})


def test_means_are_weighted_as_the_tool_weights_them(tmp_path):
    """One gap of 10 ms and ten of 100 ms: 55 ms over requests, 91.8 ms over gaps."""
    found, _ = views(tmp_path / "r", [paced(2, 0.01), paced(11, 0.1)])

    v, g, a = TOOLS
    assert 55 == pytest.approx(value(found, v, "TPOT"))
    assert 55 == pytest.approx(value(found, a, "Inter Token Latency"))
    assert 1010 / 11 == pytest.approx(value(found, g, "ITL"))
    # TPOT with TTFT in it: (0.11 s + 1.1 s) over 13 tokens.
    assert 1210 / 13 == pytest.approx(value(found, g, "TPOT"))


def test_percentiles_are_those_of_the_tool(tmp_path):
    """100, 200, 300 and 400 ms: the median is 250 ms interpolated, 200 ms by the inverse CDF."""
    records = [make_record(ttft_s=s, last_token_s=0.5, connection_reused=True) for s in TTFTS]
    found, _ = views(tmp_path / "r", records)

    v, g, a = TOOLS
    assert 250 == pytest.approx(value(found, v, "TTFT", "p50"))
    assert 250 == pytest.approx(value(found, a, "Time to First Token", "p50"))
    assert 200 == pytest.approx(value(found, g, "TTFT", "p50"))
    assert 400 == pytest.approx(value(found, g, "TTFT", "p99"))


TTFTS = (0.1, 0.2, 0.3, 0.4)


def test_M13_windows_are_those_of_the_tool(tmp_path):
    """A success of 1 s to 2 s, a failure from 0 s to 4 s: 4 s for vLLM, 1 s for the others.

    50 completion tokens and 10 of the prompt.
    """
    ok = paced(50, 0.9 / 49, started_s=1.0, user_latency_s=1.0)
    bad = failed_record(started_s=0.0, end_s=4.0, user_latency_s=4.0)
    found, _ = views(tmp_path / "r", [ok, bad])

    v, g, a = TOOLS
    assert 4 == pytest.approx(value(found, v, "Benchmark duration", "value"))
    assert 12.5 == pytest.approx(value(found, v, "Output token throughput", "value"))
    assert 15 == pytest.approx(value(found, v, "Total token throughput", "value"))
    assert 50 == pytest.approx(value(found, g, "Output tokens per second, mean", "value"))
    assert 50 == pytest.approx(value(found, a, "Output Token Throughput", "value"))
    assert (1, 1) == (
        value(found, v, "Successful requests", "value"),
        value(found, v, "Failed requests", "value"),
    )


def test_without_usage_each_tool_counts_what_it_would(tmp_path):
    """GuideLLM takes the 5 chunks; the others have no local tokenizer here, which is told."""
    silent = make_record(completion_tokens=None, token_source=TokenSource.UNKNOWN)
    found, notes = views(tmp_path / "r", [silent])

    v, g, a = TOOLS
    assert 100 == pytest.approx(value(found, g, "ITL"))
    assert (0, None) == (found[v]["TPOT"].n, value(found, v, "TPOT"))
    assert (0, None) == (
        found[a]["Output Sequence Length"].n,
        value(found, a, "Inter Token Latency"),
    )
    assert "1: usage missing: a local tokenizer counts there" in notes[v]


def test_what_the_records_cannot_give_is_missing(tmp_path):
    """Said by name and without a value; gaps too where no run told them."""
    found, _ = views(tmp_path / "r", [make_record()], stages=False)

    missing = {(t, f.name) for t, figures in found.items() for f in figures.values() if f.missing}

    assert {
        ("vLLM bench serve", "Peak output token throughput"),
        ("vLLM bench serve", "ITL"),
        ("GuideLLM", "Output tokens per second, percentiles"),
        ("AIPerf", "Time to Second Token"),
        ("AIPerf", "Inter Chunk Latency"),
    } == missing
    assert all(not found[tool][name].values for tool, name in missing)


def test_requests_that_a_tool_takes_otherwise_are_counted(tmp_path):
    """Cut off after output, an error object after output, plain, retried, cancelled: each told."""
    after = {"ttft_s": 0.1, "chunks": 2}
    records = [
        make_record(),
        failed_record(Outcome.TRUNCATED, 200, **after),
        failed_record(Outcome.STREAM_ERROR, 200, **after),
        make_record(streamed=False, ttft_s=None, ttfa_s=None, last_token_s=None),
        make_record(attempts=2),
        failed_record(Outcome.CANCELLED, None),
    ]
    found, notes = views(tmp_path / "r", records)

    broke = "broke off after output: failures here, successes there"
    assert f"2: {broke}" in notes["vLLM bench serve"]
    assert f"1: {broke}" in notes["GuideLLM"]
    assert f"2: {broke}" in notes["AIPerf"]
    for tool in TOOLS:
        assert "1: successes without a stream are left out" in notes[tool]
        assert "1: were tried more than once: the last attempt alone is timed" in notes[tool]
        assert "1: cancelled by the user on purpose: in no figure" in notes[tool]
    assert 2 == found["AIPerf"]["Request Count"].values["value"]


def test_a_stage_is_its_held_window_and_a_run_is_everything_but_warm_up(tmp_path):
    """The ramp counts in the run and in no stage; warm-up counts in neither."""
    records = [
        make_record(),
        make_record(stage=1, started_s=11.0),
        make_record(phase=Phase.RAMP),
        make_record(phase=Phase.WARMUP),
    ]

    run, _ = views(tmp_path / "run", records, levels=(1, 2))
    stage, _ = views(tmp_path / "stage", records, stage=1, levels=(1, 2))

    assert 3 == run["GuideLLM"]["Completed requests"].values["value"]
    assert 1 == stage["GuideLLM"]["Completed requests"].values["value"]


@pytest.mark.parametrize(
    "records",
    [[], [make_record()], [make_record(ttft_s=0.5, last_token_s=0.5)], [failed_record()] * 3],
    ids=["no request", "one", "one stamp", "only failures"],
)
def test_M05_next_to_nothing_is_told_without_a_number_that_is_none(tmp_path, records, capsys):
    """Strict JSON that fits its schema; the tables say n/a."""
    folder = build_run(tmp_path / "r", numbered(records))

    assert 0 == main(["compat", str(folder), "--json"])
    values = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert 0 == main(["compat", str(folder)])
    text = capsys.readouterr().out

    assert [] == misfits("compat", values)
    assert not {"nan", "inf"} & set(text.split())
    assert all(f"as {tool} defines it" in text for tool in TOOLS)


def test_a_stage_that_is_not_there_is_wrong_usage(tmp_path, capsys):
    """Exit code 2, and how many there are."""
    folder = build_run(tmp_path / "r", numbered([make_record()]))

    with pytest.raises(SystemExit) as ended:
        main(["compat", str(folder), "--stage", "2"])

    assert 2 == ended.value.code
    assert "there is no stage 2: the run has 1, from 1" in capsys.readouterr().err
