"""Fixtures of the recorder's tests."""

import pytest


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than 50 ms over an answer that a stand-in gives at once."""
    monkeypatch.setattr("traces.record.errors.FIRST_ATTEMPT_NS", 10**18)
