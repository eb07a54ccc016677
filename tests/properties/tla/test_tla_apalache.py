"""Apalache: its words are read, not only its exit code; its absence is never a pass."""

from pathlib import Path

import pytest

from properties.tla import Outcome, SpecTree, Status
from properties.tla.apalache import Apalache, Runner
from properties.tla.spec_command import spec
from properties.tla.verdicts import ApalacheCheck
from tests.properties.tla.scratch import Install, Run, Scratch


def check(tree: SpecTree, init: str | None = None, limit_s: float = 30) -> Outcome:
    asked = ApalacheCheck(inv="Low", length=1, init=init)
    return Apalache(asked, tree).check("Pile", "ok", limit_s)


@pytest.mark.parametrize(
    ("said", "code", "status", "reason"),
    [
        ("The outcome is: NoError", 0, Status.PASSED, ""),
        ("The outcome is: Error", 12, Status.VIOLATED, ""),
        ("The outcome is: NoError", 12, Status.FAILED, "NoError, but its exit code 12"),
        ("The outcome is: Error", 0, Status.FAILED, "Error, but its exit code 0"),
        ("The outcome is: ExecutionsTooShort", 0, Status.FAILED, "outcome is ExecutionsTooShort"),
        ("typing input error", 120, Status.FAILED, "no outcome:\ntyping input error"),
        ("", 0, Status.FAILED, "no outcome"),
    ],
)
def test_outcome_and_exit_code_must_tell_the_same(
    tree: SpecTree, program: Install, said: str, code: int, status: Status, reason: str
) -> None:
    program("apalache-mc", f"echo '{said}'; exit {code}")
    outcome = check(tree)
    assert outcome.status is status
    assert reason in outcome.reason
    assert outcome.violated == ("Low" if status is Status.VIOLATED else None)


#: What Apalache 0.62 says of a module that it cannot type, and the JVM of Apalache.
UNTYPED = """\
# APALACHE version: 0.62.2 | build: v0.62.2                         I@09:54:51.314
PASS #1: TypeCheckerSnowcat                                       I@09:54:55.913
 > Running Snowcat .::.                                           I@09:54:55.913
[Pile.tla:64:42-64:60]: The operator Put of type ((Int) => Bool) is applied to a Str.
Argument item should have type Int but has type Str. E@10:00:54.101
[Pile.tla:64:1-64:80]: Error when computing the type of Next      E@10:00:54.360
 > Snowcat asks you to fix the types. Meow.                       I@09:54:59.593
Type checker [FAILED]                                             I@09:55:00.226
EXITCODE: ERROR (120)
"""
WARNED = "WARNING: A terminally deprecated method in sun.misc.Unsafe has been called"


def test_a_type_error_is_shown_and_not_the_warnings_of_the_jvm(
    tree: SpecTree, program: Install, tmp_path: Path
) -> None:
    (tmp_path / "said").write_text(UNTYPED)
    program("apalache-mc", f"echo '{WARNED}' >&2; cat {tmp_path}/said; exit 120")
    for asked in (ApalacheCheck(), ApalacheCheck(inv="Low", length=1)):
        outcome = Apalache(asked, tree).check("Pile", "ok", 30)
        assert outcome.status is Status.FAILED
        assert outcome.reason.splitlines()[1:] == [
            "[Pile.tla:64:42-64:60]: The operator Put of type ((Int) => Bool) is applied to a Str.",
            "Argument item should have type Int but has type Str.",
            "[Pile.tla:64:1-64:80]: Error when computing the type of Next",
        ]


def test_types_are_checked_alone(tree: SpecTree, program: Install, tmp_path: Path) -> None:
    told = "Type checker [OK]                                        I@09:55:00.226"
    program("apalache-mc", f'echo "$@" > {tmp_path}/said; echo "{told}"')
    outcome = Apalache(ApalacheCheck(), tree).check("Pile", "ok", 30)
    assert outcome.status is Status.PASSED
    assert (tmp_path / "said").read_text() == "typecheck --out-dir=out Pile.tla\n"
    program("apalache-mc", f'echo "{told}"; exit 255')
    outcome = Apalache(ApalacheCheck(), tree).check("Pile", "ok", 30)
    assert outcome.status is Status.FAILED


def test_a_proof_module_is_checked_in_the_place_of_the_module(
    scratch: Scratch, program: Install, tmp_path: Path
) -> None:
    proof = scratch.tree.root / "Pile" / "PileProof.tla"
    proof.write_text("---- MODULE PileProof ----\nEXTENDS Pile\n====\n")
    program("apalache-mc", f'ls > {tmp_path}/there; echo "$@" > {tmp_path}/said; exit 1')
    asked = ApalacheCheck(inv="Low", length=1, init="Low", module="PileProof")
    Apalache(asked, scratch.tree).check("Pile", "ok", 30)
    assert {"Pile.tla", "PileProof.tla"} <= set((tmp_path / "there").read_text().split())
    assert (tmp_path / "said").read_text().endswith(" PileProof.tla\n")


def test_an_inductive_check_that_began_elsewhere_shows_nothing(
    tree: SpecTree, program: Install
) -> None:
    program(
        "apalache-mc",
        "echo 'Set the initialization predicate to Init'; echo 'The outcome is: NoError'",
    )
    outcome = check(tree, init="IndInv")
    assert outcome.status is Status.FAILED
    assert "did not start from IndInv" in outcome.reason
    program(
        "apalache-mc",
        "mkdir -p out/x; echo 'The outcome is: NoError'; "
        "echo 'Set the initialization predicate to IndInv' > out/x/detailed.log",
    )
    assert check(tree, init="IndInv").status is Status.PASSED


def test_the_cfg_has_no_specification_which_would_win_over_init(
    tree: SpecTree, program: Install, tmp_path: Path
) -> None:
    program("apalache-mc", f'cp *.tla model.cfg {tmp_path}; echo "$@" > {tmp_path}/said; exit 1')
    check(tree, init="IndInv")
    assert (tmp_path / "said").read_text() == (
        "check --no-deadlock --config=model.cfg --inv=Low --length=1 --init=IndInv "
        "--out-dir=out Pile.tla\n"
    )
    assert (tmp_path / "model.cfg").read_text().split() == [
        *("INIT", "Init", "NEXT", "Next"),
        *("CONSTANTS", "Height", "=", "3"),
    ]
    assert (tmp_path / "Pile.tla").is_file()


def test_a_check_that_hangs_is_stopped(
    tree: SpecTree, program: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("properties.tla.processes._PATIENCE_LEAST_S", 0.2)
    program("apalache-mc", "exec sleep 30")
    outcome = check(tree, limit_s=0.01)
    assert outcome.status is Status.TIMED_OUT
    assert outcome.reason == "not finished, with 0.0 of 0.01 CPU s used after 0 s"


def test_without_apalache_nothing_is_checked_and_the_reason_is_said(
    tree: SpecTree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = check(tree)
    assert outcome.status is Status.NOT_CHECKED
    assert outcome.reason == "no `apalache-mc` on the PATH, and no `docker` either"


def test_a_docker_image_that_is_not_there_is_not_pulled(
    tree: SpecTree, program: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWATER_APALACHE_IMAGE", "mine/apalache:1")
    program(
        "docker",
        'test "$1 $2 $3" = "image inspect mine/apalache:1" && '
        "echo 'Error: No such image' >&2; exit 1",
    )
    outcome = check(tree)
    assert outcome.status is Status.NOT_CHECKED
    assert "no docker image mine/apalache:1 (Error: No such image)" in outcome.reason


def test_a_docker_image_runs_on_the_folder_of_the_check(program: Install, tmp_path: Path) -> None:
    program("docker", "exit 0")
    runner = Runner.find(tmp_path)
    assert runner.container == tmp_path.name
    assert runner.command[1:] == (
        *("run", "--rm", "--pull=never", "--name", tmp_path.name),
        *("-v", f"{tmp_path}:/var/apalache", "-w", "/var/apalache", "apalache/mc"),
    )


def test_a_container_is_stopped_with_its_client(program: Install, tmp_path: Path) -> None:
    script = f'case "$1" in run) exec sleep 30;; kill) echo "$2" > {tmp_path}/killed;; esac'
    program("docker", script)
    runner = Runner.find(tmp_path)
    assert runner.run(("check",), tmp_path, 0.2).timed_out
    assert (tmp_path / "killed").read_text() == f"{tmp_path.name}\n"


def test_the_verb_says_what_was_not_checked_and_does_not_count_it(
    run: Run, scratch: Scratch, program: Install
) -> None:
    check = 'cfg = "ok"\napalache = [{inv = "Low", length = 1}]'
    scratch.replace("Pile/verdicts.toml", 'cfg = "ok"', check)
    program("docker", "exit 1")
    result = run(spec, ["--specs", scratch.tree.root, "Pile", "--apalache"])
    assert result.exit_code == 0, result.output
    assert "not checked: Pile/ok (Low, Apalache): no `apalache-mc` on the PATH" in result.output
    assert "1 verdicts, 0 of them violations, all as expected, 1 not checked" in result.output


def test_the_verb_fails_when_apalache_finds_what_should_not_be(
    run: Run, scratch: Scratch, program: Install
) -> None:
    check = 'cfg = "ok"\napalache = [{inv = "Low", length = 1}]'
    scratch.replace("Pile/verdicts.toml", 'cfg = "ok"', check)
    program("apalache-mc", "echo 'The outcome is: Error'; exit 12")
    result = run(spec, ["--specs", scratch.tree.root, "Pile", "--apalache"])
    assert result.exit_code == 1
    assert "Apalache: expected passes Low, found violates" in result.output
    again = f"see it again: highwater spec Pile/ok --specs {scratch.tree.root} --apalache --story"
    assert again in result.output


BIGINT = '{{"#bigint": "{}"}}'


@pytest.mark.parametrize("init", [None, "Low"])
def test_apalaches_counterexample_is_told_like_tlcs(
    run: Run, scratch: Scratch, program: Install, init: str | None
) -> None:
    """Of a counterexample to induction, too, which begins in no initial state."""
    first, second = ([], [1]) if init is None else ([7], [7, 2])
    begun = f', init = "{init}"' if init else ""
    check = f'cfg = "ok"\napalache = [{{inv = "Low", length = 1, expect = "violates"{begun}}}]'
    scratch.replace("Pile/verdicts.toml", 'cfg = "ok"', check)
    states = ", ".join(
        f'{{"#meta": {{"index": {n}}}, "items": [{", ".join(map(BIGINT.format, items))}]}}'
        for n, items in enumerate((first, second))
    )
    program(
        "apalache-mc",
        "mkdir -p out/Pile.tla/run\n"
        f'echo \'{{"vars": ["items"], "states": [{states}]}}\''
        " > out/Pile.tla/run/violation.itf.json\n"
        f"echo 'Set the initialization predicate to {init}'\n"
        "echo 'The outcome is: Error'; exit 12",
    )
    result = run(spec, ["--specs", scratch.tree.root, "Pile", "--apalache", "--story"])
    assert result.exit_code == 0, result.output
    assert "Low does not hold." in result.output
    shown = [str(items).replace("[", "<<").replace("]", ">>") for items in (first, second)]
    assert f"2  Put\n       items: {shown[0]} → {shown[1]}" in result.output
