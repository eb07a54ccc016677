"""The kept results of other clients' suites: every failure of ours alone has a reason."""

import pytest

from chaos.real.suites.catalogue import REASONS, Exemption
from chaos.real.suites.results import compared, kept, unexplained

SUITES = compared()


@pytest.mark.parametrize("suite", SUITES)
def test_what_passes_on_kafka_passes_here_or_has_a_reason(suite: str) -> None:
    results = kept(suite)
    assert "passed" in results["kafka"].values()
    assert unexplained(suite, results["kafka"], results["ours"]) == []


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{reason.suite} {reason.tests}")
def test_a_reason_is_about_tests_that_fail_here_alone(reason: Exemption) -> None:
    theirs = _only_on_kafka() if reason.always else _on_kafka()
    assert any(reason.covers(suite, test) for suite, test in theirs)


def test_a_test_that_fails_here_alone_is_named() -> None:
    theirs, ours = {"a": "passed", "b": "failed", "c": "passed"}, {"a": "failed", "b": "failed"}
    assert unexplained("kafka-python", theirs, ours) == ["a", "c"]


def _on_kafka() -> list[tuple[str, str]]:
    return [
        (suite, test)
        for suite in SUITES
        for test, outcome in kept(suite)["kafka"].items()
        if outcome == "passed"
    ]


def _only_on_kafka() -> list[tuple[str, str]]:
    return [one for one in _on_kafka() if kept(one[0])["ours"].get(one[1]) != "passed"]
