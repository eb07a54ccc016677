"""A refusal names its guard, and carries the values that disagreed."""

import ast
import re
from pathlib import Path

import pytest
from attrs import fields, has

import refimpl.machines
from refimpl import errors
from refimpl.machines import (
    classic_group_errors,
    controller_errors,
    group_errors,
    replica_errors,
    transaction_errors,
)

FOLDER = Path(refimpl.machines.__file__).parent
BROKER = FOLDER.parent / "broker"
GROUPS = FOLDER.parent / "groups"
STORAGE = FOLDER.parent / "storage"
CLASSES = [
    kind
    for module in (
        *(errors, replica_errors, controller_errors, group_errors, classic_group_errors),
        transaction_errors,
    )
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, errors.Refusal) and has(kind)
    if kind is not errors.RefusedBatch
    and not issubclass(kind, errors.InvalidRecords | errors.InvalidTimestamp)
]
#: Names that several guards share
PLAIN = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.Refusal) and not has(kind)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_refusal_says_every_value_that_it_carries(kind: type[errors.Refusal]) -> None:
    names = [one.name for one in fields(kind)]
    values = {name: f"<{name}>" for name in names}
    told = str(kind(**values))
    assert told.startswith(f"{kind.kafka_error}: ")
    assert [name for name in names if values[name] not in told] == []


def test_sets_are_told_in_order_and_nobody_by_a_word() -> None:
    refused = controller_errors.NotEligible(3, frozenset({2, 1}), frozenset(), frozenset({3}))
    assert str(refused).endswith("the ISR is {1, 2}, the ELR {}, active are {3}")
    assert "that is nobody" in str(replica_errors.NotLeader(1, 4, None))


@pytest.mark.parametrize(
    "file",
    sorted([*FOLDER.glob("*.py"), *BROKER.glob("*.py")]),
    ids=lambda file: f"{file.parent.name}-{file.name}",
)
def test_no_machine_raises_without_values(file: Path) -> None:
    raised = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
    given = [node for node in raised if node.exc is not None]  # without, it goes on to be raised
    assert [node.lineno for node in given if not isinstance(node.exc, ast.Call)] == []


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_no_machine_raises_a_refusal_that_has_no_field(kind: type[errors.Refusal]) -> None:
    files = [*FOLDER.glob("*.py"), *BROKER.glob("*.py"), *GROUPS.glob("*.py")]
    bare = rf"raise (\w+\.)?{kind.__name__}\b"
    assert [file.name for file in files if re.search(bare, file.read_text())] == []


def test_each_refusal_is_raised_by_some_machine() -> None:
    """A refusal that no machine, node or log raises says nothing."""
    files = [*FOLDER.glob("*.py"), *BROKER.glob("*.py"), *STORAGE.rglob("*.py")]
    source = "\n".join(file.read_text() for file in files)
    unused = [kind.__name__ for kind in CLASSES if f"{kind.__name__}(" not in source]
    assert unused == []
