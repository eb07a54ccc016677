"""The repository as a newcomer finds it: the locks, the verbs, the links, the words."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import grimp
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement

from refimpl.__main__ import COMMANDS, SHORT_HELP
from refimpl.extras import OF_MODULES, OF_PACKAGES, ROOMS, extra_of

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = (ROOT / "requirements.lock", ROOT / "requirements-build.lock")
#: For what has no wheel for every Python, and is installed by the verb that needs it
FUZZ_LOCK = ROOT / "requirements-fuzz.lock"
#: For what builds the site alone
SITE_LOCK = ROOT / "requirements-site.lock"
PAGES = sorted(page for where in (".", "docs/**", "spec/**") for page in ROOT.glob(f"{where}/*.md"))

# Where our texts may point: to what explains something, never to where it is fetched from.
LINKED_HOSTS = {
    "cwiki.apache.org",
    "docs.jboss.org",
    "github.com",
    "issues.apache.org",
    "jepsen.io",
    "kafka.apache.org",
    "lamport.azurewebsites.net",
    "localhost",
    "www.apache.org",
    "www.w3.org",
}


def tracked_texts() -> Iterator[tuple[Path, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (raw := path.read_bytes()):
            yield path.relative_to(ROOT), raw.decode()


def requirements() -> Iterator[str]:
    project = PYPROJECT["project"]
    yield from project["dependencies"]
    for extra in project["optional-dependencies"].values():
        yield from (entry for entry in extra if bare_name(entry) != project["name"])
    for group in PYPROJECT["dependency-groups"].values():
        yield from (entry for entry in group if isinstance(entry, str))


def brought(extra: str) -> set[str]:
    """The names of what an extra installs beside the dependencies, with the extras it names."""
    found = set[str]()
    for one in map(Requirement, PYPROJECT["project"]["optional-dependencies"].get(extra, [])):
        if one.name == PYPROJECT["project"]["name"]:
            found |= {name for other in one.extras for name in brought(other)}
        else:
            found.add(normalized(one.name))
    return found


def bare_name(requirement: str) -> str:
    return re.split(r"[\[=<>]", requirement)[0]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: Path) -> dict[str, tuple[str, int]]:
    """Name to version and number of hashes."""
    entries = re.split(r"\n(?=\S)", lock.read_text())
    pinned = (re.match(r"([\w.-]+)(?:\[[^]]*])?==([\w.]+)", entry) for entry in entries)
    return {
        normalized(pin[1]): (pin[2], entry.count("--hash=sha256:"))
        for pin, entry in zip(pinned, entries, strict=True)
        if pin
    }


@pytest.mark.parametrize(("profile", "random"), [("test", False), ("soak", True)])
def test_only_soak_draws_other_examples_each_time(profile: str, random: bool) -> None:
    assert settings.get_profile(profile).derandomize is not random


def test_what_else_is_loaded_changes_no_example_but_in_a_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis draws constants of loaded modules, unless tests/conftest.py forbids it."""
    (tmp_path / "seldom.py").write_text("SELDOM = 918_273_645")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import_module("seldom")
    drawn: set[int] = set()

    @settings(max_examples=300, database=None, phases=[Phase.generate])
    @given(st.integers(918_000_000, 919_000_000))
    def draw(number: int) -> None:
        drawn.add(number)

    draw()
    assert (918_273_645 in drawn) is not settings().derandomize


def test_every_direct_dependency_is_locked_at_a_version_that_will_do() -> None:
    pins = locked(LOCKS[0]) | locked(FUZZ_LOCK) | locked(SITE_LOCK)
    versions = {name: version for name, (version, _) in pins.items()}
    for text in requirements():
        requirement = Requirement(text)
        assert requirement.specifier, f"{text} has no version"
        assert versions[normalized(requirement.name)] in requirement.specifier, text


def test_what_users_install_leaves_room_for_what_they_have() -> None:
    """A recorder lives in an application, with an orjson of its own."""
    ranges = [Requirement(text).specifier for text in PYPROJECT["project"]["dependencies"]]
    assert all(bound.operator == ">=" for several in ranges for bound in several)


@pytest.mark.parametrize("lock", [*LOCKS, FUZZ_LOCK, SITE_LOCK], ids=lambda lock: lock.name)
def test_a_lock_holds_hashes_and_no_address(lock: Path) -> None:
    group = {FUZZ_LOCK: "fuzz", SITE_LOCK: "site"}.get(lock, "build")
    assert len(locked(lock)) >= len(PYPROJECT["dependency-groups"][group])
    assert all(hashes for _, hashes in locked(lock).values())
    assert not re.search(r"://|--index|--find-links|--extra-index|\.whl|\.tar", lock.read_text())


def test_what_builds_is_locked_twice_at_one_version() -> None:
    whole, build = (locked(lock) for lock in LOCKS)
    assert {name: whole[name] for name in build} == build


def test_what_the_site_shares_with_the_rest_has_one_version() -> None:
    whole, site = locked(LOCKS[0]), locked(SITE_LOCK)
    assert {name: whole[name][0] for name in site.keys() & whole.keys()} == {
        name: site[name][0] for name in site.keys() & whole.keys()
    }


def test_every_direct_dependency_has_its_reason() -> None:
    page = (ROOT / "docs/dependencies.md").read_text()
    rows = re.findall(r"^\| ([\w-]+) \| \S", page, flags=re.MULTILINE)
    explained = sorted(normalized(row) for row in rows if row != "package")
    assert explained == sorted({normalized(bare_name(name)) for name in requirements()})


DEPENDENCIES = [normalized(bare_name(name)) for name in PYPROJECT["project"]["dependencies"]]
#: Packages that are imported by another name than they are installed by
IMPORTED_AS = {"kafka": "kafka-python", "mkdocs": "mkdocs-material", "re2": "google-re2"}


def imported_packages(module: Path) -> set[str]:
    """The packages of others that a module imports, wherever in it."""
    ours = {"highwater", "refimpl", "chaos", "properties", "traces", "tests", "py4j"}
    found = set[str]()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    others = found - ours - sys.stdlib_module_names
    return {normalized(IMPORTED_AS.get(name, name)) for name in others}


#: What one way of a verb needs beside its extra, which says so when it is asked for
ASKED_FOR = brought("spark") | brought("html")
#: Programs of the checkout, with the libraries of its tests
NOT_INSTALLED = [
    ROOT / folder for folder in PYPROJECT["tool"]["uv"]["build-backend"]["wheel-exclude"]
]


@pytest.mark.parametrize("room", ["highwater", *ROOMS])
def test_a_room_imports_only_what_its_own_extra_installs(room: str) -> None:
    installed = {*DEPENDENCIES, *brought(extra_of(room))}
    for module in (ROOT / room).rglob("*.py"):
        if any(module.is_relative_to(folder) for folder in NOT_INSTALLED):
            continue
        more = ASKED_FOR if room == "traces" else set[str]()
        # A plugin of pytest is loaded by pytest alone.
        loads_it = {"pytest"} if module.name == "pytest_plugin.py" else set[str]()
        assert imported_packages(module) <= installed | more | loads_it, module


@pytest.mark.parametrize("extra", sorted({*OF_MODULES.values(), *OF_PACKAGES.values()}))
def test_an_extra_that_is_named_exists(extra: str) -> None:
    assert brought(extra)


def test_the_extra_for_tests_has_neither_spark_nor_pandas() -> None:
    """It is 300 MB as it is, and they are 560 more."""
    assert {"numpy", "pyarrow", "kio", "pytest"} <= brought("test")
    assert brought("test").isdisjoint({"pyspark", "pandas", "hypothesis", "matplotlib"})


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """The graph of imports, without the page of a report."""
    graph = grimp.build_graph(*ROOMS, include_external_packages=True)
    for module in graph.find_matching_modules("traces.html.*"):
        graph.remove_module(module)
    return graph


@pytest.mark.parametrize("verb", PYPROJECT["project"]["entry-points"][COMMANDS])
def test_the_extra_that_a_verb_names_installs_all_that_it_imports(
    verb: str, imports: grimp.ImportGraph
) -> None:
    """By way of whatever module, and wherever in it; but Spark and pages have their own extras."""
    (offer,) = entry_points(group=COMMANDS, name=verb)
    found = {name.partition(".")[0] for name in imports.find_upstream_modules(offer.module)}
    others = found - set(ROOMS) - sys.stdlib_module_names - {"py4j"}
    names = {normalized(IMPORTED_AS.get(name, name)) for name in others}
    more = ASKED_FOR if offer.module.startswith("traces") else set[str]()
    assert names <= {*DEPENDENCIES, *brought(extra_of(offer.module))} | more


#: Refuses to import what is not of these, as where it is not installed
ALONE = """
import sys
class Alone:
    def find_spec(self, name, path=None, target=None):
        if path is None and name.replace("_", "-") in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name}}", name=name)
sys.meta_path.insert(0, Alone())
"""


def alone(extra: str) -> str:
    """A script's beginning, after which an extra is all that is installed."""
    named = {package: name for name, package in IMPORTED_AS.items()}
    others = {normalized(bare_name(one)) for one in requirements()}
    refused = others - {*DEPENDENCIES, *brought(extra)}
    return ALONE.format(refused={named.get(one, one) for one in refused})


@pytest.mark.parametrize("verb", PYPROJECT["project"]["entry-points"][COMMANDS])
def test_a_verb_is_imported_where_its_extra_is_all_that_is_installed(verb: str) -> None:
    (offer,) = entry_points(group=COMMANDS, name=verb)
    module, _, name = offer.value.partition(":")
    script = f"{alone(extra_of(module))}\nfrom {module} import {name}"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_recording_is_judged_where_only_the_extra_for_tests_is_installed() -> None:
    script = f"""{alone("test")}
import highwater
run = highwater.load("examples/leader-kill-acks1")
print(highwater.check(run)["L4"].count, highwater.BlockingCluster, highwater.recorded)
try:
    highwater.read_ops
except ModuleNotFoundError as missing:
    print(missing)
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    count, missing = ran.stdout.splitlines()
    assert count.startswith("406 ")
    assert missing == (
        "highwater.read_ops needs the package `pyspark`, which comes with an extra: "
        "pip install 'highwatermark[spark]'"
    )


@pytest.mark.parametrize("folder", ["tests", "bench", "docs"])
def test_what_stands_beside_the_rooms_imports_only_what_is_locked(folder: str) -> None:
    pinned = {normalized(bare_name(name)) for name in requirements()}
    for module in (ROOT / folder).rglob("*.py"):
        # The generator of the benches makes traces for tests, too, and what builds a page says what
        # its test asks, and real Kafka is held up by a relay of the examples; rooms know nothing of
        # them.
        beside = {normalized(one.stem) for one in (ROOT / folder).glob("*.py")}
        assert imported_packages(module) - {"bench", "docs", "examples", *beside} <= pinned, module


def test_no_tracked_text_names_a_machine_or_an_unknown_host() -> None:
    machine = re.compile(r"(?<![\w.$~-])/(?:home|root|Users|work|opt)/[\w.-]+")
    address = re.compile(r"https?://([\w.-]+)")
    for path, text in tracked_texts():
        assert not machine.findall(text), path
        strangers = {host for host in address.findall(text) if host not in LINKED_HOSTS}
        assert not strangers, path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    text = page.read_text()
    assert set(re.findall(r"`(?:\$ )?make ([a-z-]+)", text)) <= verbs
    assert set(re.findall(r"(?:`|bin/)highwater ([a-z-]+)", text)) <= set(SHORT_HELP)


def test_every_formula_and_model_that_the_readme_rests_on_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    formulas = re.findall(r"^\|.*?\]\((spec/\S+\.tla)\) `(\w+)`", readme, flags=re.MULTILINE)
    assert formulas
    for module, formula in formulas:
        assert f"\n{formula} ==" in (ROOT / module).read_text(), formula
    models = {path.stem for path in ROOT.glob("spec/tla/*/cfg/*.cfg")}
    assert set(re.findall(r"`((?:ok|bug|probe)_\w+)`", readme)) <= models


def test_the_readme_names_both_commands_on_its_first_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    first_screen = "\n".join(lines[:20])
    assert "make verify" in first_screen
    assert "make test" in first_screen
    assert len(lines) <= 145


def test_bare_make_lists_the_verbs() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"^  make ([a-z-]+) ", listed, flags=re.MULTILINE))
    others_data = {"dump-log", "generate", "import", "ingest", "record-scan"}
    others_data |= {
        "configs",
        "consume",
        "elect",
        "groups",
        "offsets",
        "produce",
        "proxy",
        "reassign",
        "topics",
    }
    about_this_checkout = set(SHORT_HELP) - others_data
    assert {"verify", "test", "setup", "lint", "soak", "clean"} | about_this_checkout <= shown


@pytest.mark.xdist_group("one-worker")
def test_what_is_marked_to_run_in_one_worker_does(request: pytest.FixtureRequest) -> None:
    """With pytest 9.2 xdist 3.8 forgets the groups and says nothing of it (pytest-xdist #1386)."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one process: everything runs in it")
    item = cast(pytest.Item, request.node)  # pyright: ignore[reportUnknownMemberType]
    assert item.nodeid.endswith("@one-worker"), "with -n, pytest needs --dist loadgroup here"


@pytest.mark.spark
def test_what_needs_spark_runs_in_one_worker(request: pytest.FixtureRequest) -> None:
    """Or each of them starts a session, and makes what the tests share once more."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one process: everything runs in it")
    item = cast(pytest.Item, request.node)  # pyright: ignore[reportUnknownMemberType]
    assert item.nodeid.endswith("@spark")


FOLDERS = ("refimpl", "traces", "properties", "chaos", "highwater", "tests", "bench", "docs")
INDIRECT = re.compile(r'"""(What|Who|Whoever|Whose|Where|Whether|How) ')


def test_a_docstring_says_first_what_a_thing_is() -> None:
    """Its subject is no clause that begins with what, who, where, whether or how."""
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for room in FOLDERS
        for file in (ROOT / room).rglob("*.py")
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if INDIRECT.search(line)
    ]
    assert found == []


def test_every_slow_test_is_there() -> None:
    """A name that no test has any more would let a renamed one into `make test`."""
    names = (ROOT / "tests/slow.txt").read_text("utf-8").splitlines()
    listed = [line.split("::") for line in names if not line.startswith("#")]
    gone = [
        f"{file}::{test}"
        for file, test in listed
        if f"def {test}(" not in (ROOT / file).read_text("utf-8")
    ]
    assert listed
    assert gone == []
