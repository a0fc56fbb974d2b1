"""The architecture's promises about imports, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LEVELS = {
    "metrics": 0,
    "stream": 0,
    "workloads": 0,
    "options": 1,
    "option_reader": 1,
    "values": 0,
    "settings": 1,
    "users": 2,
    "shapes": 2,
    "reports": 2,
    "hooks": 3,
    "locustfile": 4,
    "bench": 5,
}
SAME_LEVEL_ALLOWED = {
    ("settings", "options"),
    ("settings", "option_reader"),
    ("option_reader", "options"),
}
ALONE = ("simulator",)
ALONE_ALLOWED = {("bench", "simulator")}  # the oracle of the knee's accuracy
PURE = ("metrics", "stream", "workloads", "values", "settings", "options", "option_reader")
PURE_FILES = (
    "users/retry_policy.py",
    "shapes/plan.py",
    "shapes/plan_parts.py",
    "shapes/bounded.py",
    "shapes/limits_search.py",
    "shapes/limits.py",
    "shapes/ladder.py",
    "shapes/steps.py",
    "shapes/soak.py",
    "shapes/spike.py",
    "shapes/open_loop.py",
    "shapes/cold_start.py",
    "hooks/live/points.py",
    "hooks/live/series.py",
    "hooks/live/windows.py",
    "hooks/live/stage_lines.py",
    "hooks/live/recent.py",
    "hooks/export/buckets.py",
    "hooks/export/knee_so_far.py",
    "hooks/progress.py",
)
IMPURE_MODULES = {
    "asyncio",
    "gevent",
    "geventhttpclient",
    "httpx2",
    "locust",
    "openai",
    "os",
    "requests",
    "secrets",
    "select",
    "socket",
    "subprocess",
    "threading",
    "time",
}


def _files(package: str) -> list[Path]:
    single = ROOT / f"{package}.py"
    return [single] if single.exists() else sorted((ROOT / package).rglob("*.py"))


def _imports(path: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").partition(".")[0])
    return found


def upward_imports(package: str, imports: set[str]) -> set[str]:
    """Those imports of a package that do not point down."""
    ours = (set(LEVELS) | set(ALONE)) - {package}
    if package in ALONE:
        return imports & ours
    return {
        name
        for name in imports & ours
        if (name in ALONE and (package, name) not in ALONE_ALLOWED)
        or (
            name not in ALONE
            and LEVELS[name] >= LEVELS[package]
            and (package, name) not in SAME_LEVEL_ALLOWED
        )
    }


@pytest.mark.parametrize("package", [*LEVELS, *ALONE])
def test_imports_point_down(package):
    """No package imports one of its own level or above, and the simulator imports none."""
    wrong = {
        str(path.relative_to(ROOT)): bad
        for path in _files(package)
        if (bad := upward_imports(package, _imports(path)))
    }

    assert wrong == {}


def test_an_upward_import_is_seen():
    """The check itself goes red: metrics may not import users, nor stream, nor the simulator."""
    assert {"users", "stream"} == upward_imports("metrics", {"users", "stream", "json"})
    assert {"simulator"} == upward_imports("hooks", {"simulator", "users"})
    assert {"metrics"} == upward_imports("simulator", {"metrics"})


def test_pure_packages_know_no_clock_socket_or_locust():
    """Everything of that kind is handed in."""
    files = [path for package in PURE for path in _files(package)]
    files += [ROOT / name for name in PURE_FILES]
    wrong = {
        str(path.relative_to(ROOT)): bad
        for path in files
        if (bad := _imports(path) & IMPURE_MODULES)
    }

    assert wrong == {}


def test_no_import_hides_in_a_function():
    """Locust may take the locustfile's folder off the path after loading."""
    wrong = []
    for package in LEVELS:
        for path in _files(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    inner = [
                        n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)
                    ]
                    wrong += [f"{path.relative_to(ROOT)}:{n.lineno}" for n in inner]

    assert wrong == []


def test_modules_stay_small():
    """A source module over 300 lines holds more than one idea."""
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in [*LEVELS, *ALONE]
        for path in _files(package)
    }

    assert {name: lines for name, lines in sizes.items() if lines > 300} == {}
    assert sizes["locustfile.py"] < 60
