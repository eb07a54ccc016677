"""Clients are told of the cluster what the answering broker has heard, and nothing older."""

from typing import Any

import pytest

from chaos.campaign import first_failing_seed
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.broker.metadata import Metadata
from refimpl.messages.broker import MetadataResponse, Request, Response

ANSWER = "refimpl.broker.metadata:Metadata.answer"
GROUPS = "refimpl.broker.group_coordinators:GroupCoordinators"
# What is wrong: in a function, `old` has become `new`
BUGS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "the preferred leader is told": (
        ANSWER,
        "-1 if one.decision.leader is None else one.decision.leader",
        "one.replicas[0]",
        {},
    ),
    "all replicas count as in sync": (
        ANSWER,
        "one.decision.isr",
        "frozenset(one.replicas)",
        {},
    ),
    "a topic without a leader is left out": (
        ANSWER,
        "wanted is None or one.partition.topic in wanted",
        "one.decision.leader is not None and (wanted is None or one.partition.topic in wanted)",
        {},
    ),
    "changes of the ISR within an epoch are overheard": (
        "refimpl.messages.cluster:ClusterMetadata._apply_partition",
        "known.decision.partition_epoch <= epoch",
        "known.decision.leader_epoch < change.decision.leader_epoch",
        {},
    ),
    "the leader of another partition coordinates": (
        f"{GROUPS}._found",
        "leader_of(self.metadata, name, key)",
        "self.metadata.partitions[TopicPartition(name, 0)].decision.leader",
        {"transactions": True},
    ),
}


@pytest.mark.parametrize("what", BUGS)
def test_a_wrong_answer_is_reported(what: str) -> None:
    path, old, new, fixed = BUGS[what]
    function = function_at(path)
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        found = first_failing_seed(range(12), files=False, **fixed)
    assert found is not None
    assert found.oracle == "ToldAsHeard"


def test_answers_cached_by_a_version_that_some_decisions_do_not_raise_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an update that is out of order decisions count, and the version stays."""
    answers: dict[tuple[int, int, Any], MetadataResponse] = {}
    original = Metadata.answer

    def cached(self: Metadata, request: Request, errors: dict[str, str]) -> None:
        key = id(self), self.metadata_version, request.body.topics
        if key in answers:
            self.context.respond(request, answers[key])
            return
        original(self, request, errors)
        response = self.context.outputs[-1]
        assert isinstance(response, Response)
        answers[key] = response.body

    monkeypatch.setattr(Metadata, "answer", cached)
    found = first_failing_seed(range(12), files=False, store=False)
    assert found is not None
    assert found.oracle == "ToldAsHeard"
