"""``python -m reports knee``: the verdict step by step, from a run or from somebody's table."""

import pytest

from reports.__main__ import main
from reports.level_table import read_level_table
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered

# Published by NVIDIA for NIM (Llama 3.3 70B): users, requests/s, TTFT and latency in ms.
TABLE = """concurrency,rps,ttft_ms,latency_ms,tpot_ms
1,0.2,100,5000,10
50,5.5,200,9000,17
100,6.0,3000,16600,27
200,6.1,19000,32800,27
"""


def told(capsys, *words):
    """Exit code and what was printed, both streams."""
    code = main(["knee", *map(str, words)])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_a_table_is_explained(tmp_path, capsys):
    """Baseline, each level, the estimate and the rule; without intervals, for there are none."""
    file = tmp_path / "levels.csv"
    file.write_text(TABLE)

    code, text = told(capsys, file)

    assert code == 0
    assert "Baseline: 1 user," in text
    assert 4 == text.count("Level of ")
    assert "Interval: n/a" in text
    assert "Verdict: " in text
    assert "for comparison only" in text


def test_a_run_is_explained_with_its_intervals(tmp_path, capsys):
    """The levels of a saved run, read as the report reads them."""
    records = [
        make_record(stage=stage, started_s=10.0 * stage + n / 10, ttft_s=ttft_s + n % 5 / 1000)
        for stage, ttft_s in ((0, 0.1), (1, 0.3))
        for n in range(40)
    ]
    folder = build_run(tmp_path / "run", numbered(records))

    code, text = told(capsys, folder)

    assert code == 0
    assert "Verdict: " in text
    assert "Rule: " in text


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("rps,ttft_s\n1,2\n", "line 1: no column users"),
        ("users,rps\n1,2\n", "line 1: no column latency_s"),
        ("users,latency_s\n", "no level"),
        ("", "line 1: no column users"),
        ("users,latency_s\n1,1\nx,1\n", "line 3: users is 'x': write a number"),
        ("users,latency_s\n1.5,1\n", "line 2: users is '1.5': write a whole number"),
        ("users,latency_s\n0,1\n", "line 2: users is '0': write a whole number from 1"),
        ("users,latency_s\n1,\n", "line 2: latency_s is '': a request takes time"),
        ("users,latency_s\n1,nan\n", "line 2: latency_s"),
        ("users,latency_s\ninf,1\n", "line 2: users is 'inf': write a number"),
        ("users,latency_s,ttft_s\n1,1,-1\n", "line 2: ttft_s"),
        (
            "users,latency_s,users\n1,1,2\n",
            "line 1: users (column 1) and users (column 3) hold the same figure: keep one",
        ),
        ("users,latency_s,latency_ms\n1,1,2\n", "latency_ms (column 3) hold the same"),
        ("users,latency_s,n\n1,1,2\n", "users (column 1) and n (column 3) hold the same"),
        (
            "users,latency_s,ttft_ms\n1,1,1000\n2,1,1001\n",
            "line 3: ttft_ms is '1001', more than latency_s of '1': the first token comes before",
        ),
        ("users,latency_s\n1,1\n2,1,5\n", "line 3: 3 cells, and the head line has 2"),
        (
            "users,rps,latency_s\n1,1,1\n30,9.9,1\n",
            "line 3: rps is '9.9', which in cycles of 1 s is the work of 9.9 users and not of 30",
        ),
        ("users,rps,latency_s\n1,1,1\n30,90.1,1\n", "line 3: rps is '90.1'"),
        ("users, requests/s, TTFT, latency\n1,1,1,1\n", "line 1: column 3 is 'ttft', without a"),
        ("users,ttft_s,latency\n1,1,1\n", "column 3 is 'latency', without a unit: write latency_s"),
        ("users,ttft_p95_s,latency_s\n1,1,1\n", "column 2 is 'ttft_p95_s', which is not known: a"),
        ("users,ttft_s,latency_s,ITL (ms)\n1,1,1,2\n", "a mean is called tpot_s, itl_s"),
        ("users,latency_s,think time\n1,1,2\n", "column 3 is 'think time', which is not known"),
        ("users,rps,latency_s\n30,0,1\n", "line 2: rps is '0'"),
        ("users,rps,latency_s,think_s\n30,10,1,9.1\n", "of 101 users and not of 30"),
    ],
)
def test_a_table_that_cannot_be_used_is_told_by_line(tmp_path, capsys, table, says):
    """Exit code 2, the file, the line and what to write."""
    file = tmp_path / "levels.csv"
    file.write_text(table)

    code, text = told(capsys, file)

    assert code == 2
    assert says in text
    assert "levels.csv" in text


def test_rates_that_the_edges_of_a_run_explain_are_taken():
    """A third and three times of what Little's law has, each just inside."""
    for rps in (10.1, 89.9):
        (level,) = read_level_table(f"users,rps,latency_s\n30,{rps},1\n")
        assert rps == level.completed_per_s


def test_a_table_without_tpot_prints_no_decode_step(tmp_path, capsys):
    """Missing is not 0.0 ms."""
    file = tmp_path / "levels.csv"
    file.write_text("users,ttft_s,latency_s\n1,0.1,1\n2,0.1,1\n")

    _, text = told(capsys, file)

    assert "(100.0 ms)." in text
    assert "decode step" not in text


@pytest.mark.parametrize(
    ("kind", "shape", "says"),
    [
        ("rate", "open-loop", "an open loop: its requests were sent at set rates"),
        ("burst", "spike", "of the shape spike: it has no levels of users"),
    ],
)
def test_a_run_without_levels_is_told_what_it_is(tmp_path, capsys, kind, shape, says):
    """No knee is looked for: what the run is, where its answer stands, and what to run instead."""
    plan = [{"stage": 0, "kind": kind, "target_users": 1, "rate_rps": 4.0}]
    folder = build_run(tmp_path / "r", [make_record()], stage_plan=plan, shape=shape)

    code, text = told(capsys, folder)

    assert code == 2
    assert says in text
    assert "--shape knee" in text
    assert "held long enough" not in text


def test_units_and_spellings_of_columns():
    """Milliseconds and seconds, and the names that other tools use, are the same table."""
    one = read_level_table("users,requests_per_s,ttft_s,latency_s\n2,1.5,0.25,3\n")
    other = read_level_table("\ufeffN, rps, mean_ttft_ms, e2e_latency_ms\r\n2,1.5,250,3000\r\n\r\n")
    assert one == other


def test_other_columns_are_passed_over_where_the_mean_is_there():
    """A percentile beside the mean, and what no rule needs."""
    plain = read_level_table("users,ttft_s,latency_s\n2,0.25,3\n")
    assert plain == read_level_table(
        "users,ttft_s,ttft_p95_s,latency_s,latency_p95_s,title\n2,0.25,1,3,9,x\n"
    )


def test_a_folder_that_is_no_run_is_named(tmp_path, capsys):
    """Neither a run nor a file."""
    code, text = told(capsys, tmp_path / "nothing")
    assert code == 2
    assert "nothing" in text
