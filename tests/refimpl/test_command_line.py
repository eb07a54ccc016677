"""The command group itself: what `highwater` says and how it exits, whatever the verbs do."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result

from refimpl import __main__ as command_line

Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call `highwater probe`, where the verb `probe` does what the test says."""

    def run(*arguments: str, doing: Callable[[], object] = lambda: None) -> Result:
        room = ModuleType("traces_probe")
        room.__dict__["probe"] = click.Command("probe", callback=doing)
        monkeypatch.setitem(sys.modules, "traces_probe", room)
        offer = EntryPoint("probe", "traces_probe:probe", command_line.COMMANDS)
        monkeypatch.setattr(command_line, "_offers", lambda: {"probe": offer})
        return CliRunner().invoke(command_line.highwater, arguments or ("probe",))

    return run


def refuse(error: BaseException) -> Callable[[], None]:
    def raising() -> None:
        raise error

    return raising


def test_a_verb_that_ends_quietly_exits_0(call: Call) -> None:
    assert call(doing=lambda: "a return value is not an exit code").exit_code == 0


def test_a_broken_promise_exits_1(call: Call) -> None:
    assert call(doing=lambda: click.get_current_context().exit(1)).exit_code == 1


@pytest.mark.parametrize(
    "refusal", [click.ClickException("no such trace"), click.FileError("trace.ndjson")]
)
def test_a_refusal_is_never_taken_for_a_verdict(call: Call, refusal: click.ClickException) -> None:
    result = call(doing=refuse(refusal))
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_an_interrupted_verb_exits_as_the_shell_expects(call: Call) -> None:
    assert call(doing=refuse(KeyboardInterrupt())).exit_code == 130


def test_a_mistyped_verb_is_answered_with_the_nearest_one(call: Call) -> None:
    result = call("prove")
    assert result.exit_code == 2
    assert "No such command 'prove'. Did you mean 'probe'?" in result.stderr


def test_a_package_imported_late_is_named_with_the_extra_that_brings_it(call: Call) -> None:
    result = call(doing=refuse(ModuleNotFoundError("No module", name="pyspark.sql")))
    assert result.exit_code == 2
    assert "the package `pyspark`" in result.stderr
    assert "pip install 'highwatermark[spark]'" in result.stderr


def test_a_missing_module_of_our_own_is_not_blamed_on_the_installation(call: Call) -> None:
    result = call(doing=refuse(ModuleNotFoundError("No module", name="traces.lost")))
    assert isinstance(result.exception, ModuleNotFoundError)


def test_our_own_bug_shows_its_traceback_and_exits_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line.highwater, "main", refuse_with_arguments)
    with pytest.raises(SystemExit) as leaving:
        command_line.main()
    assert leaving.value.code == 3
    assert "ZeroDivisionError: a slip of ours" in capsys.readouterr().err


def refuse_with_arguments(**_: object) -> None:
    raise ZeroDivisionError("a slip of ours")


def test_every_verb_is_listed_with_its_own_words() -> None:
    offered = {point.name: point for point in entry_points(group=command_line.COMMANDS)}
    said = {verb: point.load().get_short_help_str(limit=200) for verb, point in offered.items()}
    assert said == command_line.SHORT_HELP


HEAVY = (
    "pyspark",
    "numpy",
    "pandas",
    "pyarrow",
    "hypothesis",
    "jinja2",
    "drawsvg",
    "matplotlib",
    "z3",
)


def test_help_imports_no_room_but_the_core() -> None:
    script = (
        "import json, sys\n"
        "from refimpl.__main__ import highwater\n"
        "highwater.main(['--help'], standalone_mode=False)\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(ran.stderr)}
    assert loaded.isdisjoint({*HEAVY, "properties", "chaos", "traces"})
    assert all(verb in ran.stdout for verb in command_line.SHORT_HELP)


def test_an_extra_that_is_not_installed_is_one_line_and_exit_2() -> None:
    """Hide packages of the extra `check` from a real process, as a core install would."""
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['pyarrow'] = sys.modules['edn_format'] = None\n"
        "from refimpl.__main__ import main\n"
        "sys.argv = ['highwater', 'check', '.']\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "pip install 'highwatermark[check]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
