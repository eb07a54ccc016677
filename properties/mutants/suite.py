"""The tests as a gate: collected once, and a mutant is asked of those that run its function."""

import ast
import os
import resource
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from cProfile import Profile
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson
from attrs import define, field, frozen

from properties.tla import InputError
from properties.tla.specs import CHECKOUT, cache_folder
from properties.tla.tools import digest

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
#: CPU seconds that one test may take while a mutant is in; more is a loop without end.
LIMIT_S = 30
#: The factor by which a test may be slower while it is watched.
WATCHED = 3


@frozen(eq=False)
class CollectedTests:
    """Tests that are collected and have not run, and which of them runs which function."""

    items: Mapping[str, Any]
    """By node id, in the order of collection."""
    runners: Mapping[str, Sequence[str]]
    """By `package.module:Class.method`: the tests that call it, cheap ones first."""

    def of(self, function: str, rooms: tuple[str, ...]) -> list[str]:
        """The tests in these folders or files that call the function, cheap ones first."""
        return [one for one in self.runners.get(function, ()) if one.startswith(rooms)]

    def fails(self, tests: Iterable[str]) -> bool:
        """True if one of these tests fails. Call it in a process that ends afterwards."""
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        return any(_fails_in_time(self.items[test]) for test in tests)


def with_suite(folders: Sequence[str], body: Callable[[CollectedTests], T]) -> T:
    """Collect the tests of these folders and call `body` with them.

    Raises `InputError` without pytest, and if a test fails while nothing is wrong.
    """
    try:
        import pytest
    except ImportError:
        raise InputError("generated mutants are judged by tests too: install pytest") from None
    loop = _Loop(body)
    arguments = [
        *(str(CHECKOUT / folder) for folder in folders),
        f"--rootdir={CHECKOUT}",
        f"--config-file={CHECKOUT / 'pyproject.toml'}",
        "--override-ini=addopts=",
        "--import-mode=importlib",
        "--assert=plain",
        "--capture=no",
        *(f"-p no:{plugin}" for plugin in ("cacheprovider", "terminal", "xdist", "junitxml")),
    ]
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    pytest.main([part for one in arguments for part in one.split(" ", 1)], plugins=[loop])
    if loop.error:
        raise loop.error
    if not loop.answers:
        raise InputError(f"no test can be collected below {', '.join(folders)}")
    return loop.answers[0]


@define
class _Loop:
    """Replaces pytest's own loop over the tests."""

    body: Callable[[CollectedTests], Any]
    answers: list[Any] = field(factory=list[Any])
    error: BaseException | None = None

    def pytest_configure(self, config: "pytest.Config") -> None:
        """Some tests bear a mark of xdist, which is left out."""
        config.addinivalue_line("markers", "xdist_group(name): runs in one process with its like")

    def pytest_runtestloop(self, session: "pytest.Session") -> bool:
        if session.testsfailed:
            return False  # something cannot be imported
        try:
            items = {item.nodeid: item for item in session.items}
            self.answers.append(self.body(CollectedTests(items, _runners(items))))
        except BaseException as error:
            self.error = error
        return True


class _Reports:
    """Collects pytest's reports of the running test."""

    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        self.failed |= report.failed


def _fails_in_time(item: Any) -> bool:
    """Each test has its own limit: a function that many tests call may take them a long time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + LIMIT_S, hard))
    return _failed(item)


def _failed(item: Any) -> bool:
    reports, plugins = _Reports(), item.config.pluginmanager
    plugins.register(reports)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    finally:
        plugins.unregister(reports)
    return reports.failed


# ------------------------------------------------------------------------------ who runs what


def _runners(items: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Each file of tests is watched by itself: one that changes is watched again, and no other."""
    ran: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for file, names in groupby(items, lambda name: name.partition("::")[0]):
        of = {name: items[name] for name in names}
        watched = learned("tests", partial(_watched, of), closure([CHECKOUT / file]), of)
        for function, tests in watched.items():
            ran[function] += [(cost, test) for cost, test in tests]
    return {function: [test for _, test in sorted(tests)] for function, tests in ran.items()}


def _watched(items: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[float, str]]]]:
    """The functions that these tests call, each with its tests and their cost."""
    ran: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, item in items.items():
        started = time.process_time()
        profiles = list[Profile]()
        threading.setprofile(partial(_profile_thread, profiles))
        profiles.append(Profile())
        failed = profiles[0].runcall(_failed, item)
        threading.setprofile(cast("Any", None))
        if failed:
            raise InputError(f"{name} fails without any mutant")
        cost = time.process_time() - started
        if cost > WATCHED * LIMIT_S:
            raise InputError(f"{name} takes {cost:.0f} CPU s, and {LIMIT_S} are allowed")
        for function in set[str]().union(*map(functions_in, profiles)):
            ran[function].append((cost, name))
    yield from ran.items()


def _profile_thread(profiles: list[Profile], *_: object) -> None:
    """Watch the thread that makes this call, which is its first."""
    profiles.append(Profile())
    profiles[-1].enable()


def closure(files: Iterable[Path]) -> list[Path]:
    """These files, and all of this repository that they import, directly or not."""
    waiting, found = [*files], {CHECKOUT / "tests" / "conftest.py"}
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(file)
    return sorted(found)


@cache
def _imported(file: Path) -> list[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{one.name}" for one in node.names}
    parents = {
        ".".join(parts[:depth])
        for name in names
        if (parts := name.split("."))
        for depth in range(1, len(parts) + 1)
    }
    places = (CHECKOUT.joinpath(*name.split(".")) for name in parents)
    found = (one for place in places for one in (place.with_suffix(".py"), place / "__init__.py"))
    return [one for one in found if one.is_file()]


def learned(
    what: str,
    seen: Callable[[], Iterator[tuple[str, Iterable[Any]]]],
    files: Iterable[Path],
    about: Iterable[str] = (),
) -> Mapping[str, Sequence[Any]]:
    """Facts that a separate process learns about functions, kept until one of the files changes."""
    key = digest(files, what, *sorted(about))
    kept = cache_folder() / "mutants" / f"{what}-{key}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="highwater-suite-") as folder:
            note = Path(folder, "note")
            pid = os.fork()
            if pid == 0:
                _learn(seen, note)
            os.waitpid(pid, 0)
            told = orjson.loads(note.read_bytes()) if note.is_file() else {"error": "it crashed"}
        if isinstance(told.get("error"), str):
            raise InputError(f"the {what} that judge mutants: {told['error']}")
        kept.write_bytes(orjson.dumps(told))
    return orjson.loads(kept.read_bytes())


def _learn(seen: Callable[[], Iterator[tuple[str, Iterable[Any]]]], note: Path) -> None:
    try:
        told: dict[str, Any] = {name: [*tests] for name, tests in seen()}
    except BaseException as error:
        told = {"error": str(error) or repr(error)}
    note.write_bytes(orjson.dumps(told))
    os._exit(0)


def functions_in(profile: Profile) -> set[str]:
    """The functions of this repository that were called, as `package.module:Class.method`."""
    codes = (entry.code for entry in profile.getstats())
    return {_path(code) for code in codes if isinstance(code, CodeType)} - {""}


def _path(code: CodeType) -> str:
    file = Path(code.co_filename)
    if not file.is_relative_to(CHECKOUT):
        return ""
    module = ".".join(file.relative_to(CHECKOUT).with_suffix("").parts)
    return f"{module.removesuffix('.__init__')}:{code.co_qualname}"
