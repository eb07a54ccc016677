"""Another TLC than the pinned one: our Java classes compile against it, and it finds the same.

HIGHWATER_TLA2TOOLS=…/tla2tools.jar pytest -m newer_tlc
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from properties.proofs import sany
from properties.tla import tools
from properties.tla.graph import Graph, load_graph
from properties.tla.spec_command import spec
from properties.tla.specs import SpecTree

pytestmark = [pytest.mark.newer_tlc, pytest.mark.java]
TREE = SpecTree()
GRAPHS = [
    ("AbsLog", "ok_loss_allowed"),
    ("AlterPartition", "ok_2_small"),
    ("GroupLog", "ok_2_short"),
]


@pytest.fixture
def jar() -> Path:
    named = os.environ.get(tools.JAR_VARIABLE)
    assert named, f"{tools.JAR_VARIABLE} names no jar: it is what these tests are about"
    found = tools.find_jar()
    with pytest.raises(tools.InputError, match="is not the pinned TLC"):
        tools.check_jar(found)
    return found


def edges(graph: Graph) -> set[tuple[str, ...]]:
    """Every edge in words: the state, the step and the state behind it."""
    shown = [str(graph.state(number)) for number in range(len(graph.states))]
    return {
        (shown[number], str(graph.actions[label]), shown[target])
        for number, out in enumerate(graph.out)
        for label, targets in out.items()
        for target in targets
    }


@pytest.mark.parametrize(("module", "cfg"), GRAPHS)
def test_the_graph_is_that_of_the_pinned_tlc(
    jar: Path, module: str, cfg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = edges(load_graph(module, cfg, TREE))
    monkeypatch.delenv(tools.JAR_VARIABLE)
    assert newer
    assert edges(load_graph(module, cfg, TREE)) == newer


def test_verdicts_and_counts_are_as_pinned(jar: Path) -> None:
    done = CliRunner().invoke(spec, ["AbsLog", "GroupLog"])
    assert done.exit_code == 0, done.output


def test_the_syntax_tree_can_be_read(jar: Path) -> None:
    tree = sany.read("ControllerProof", "Controller", TREE)
    assert tree.definition("SentIsTrue").body(tree)
