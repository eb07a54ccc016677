"""A promise called violated while a trace grows is violated at its end."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.traces.fixture import fixture
from tests.traces.judging import SEEDED, examples, judged, own, said
from tests.traces.watch.growing import Growing
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.watch.watching import Watch


def as_configured(meta: dict[str, Any], random: Random) -> None:
    """Other promises than those of the fixture: some records may be lost, some are not promised."""
    for producer in meta["producers"].values():
        if random.random() < 0.3:
            producer["acks"] = random.choice(["1", "0", "all"])
        if random.random() < 0.1:
            del producer["acks"]
    for topic in meta["topics"].values():
        if random.random() < 0.2:
            topic["unclean_leader_election"] = True


@pytest.mark.parametrize("name", [None, *IN_CALLS])
@given(seed=st.integers(0, 10**9), strict=st.booleans(), safe=st.booleans())
@settings(max_examples=examples(1), phases=SEEDED)
def test_no_verdict_is_taken_back(name: str | None, seed: int, strict: bool, safe: bool) -> None:
    seed = own(seed, name)
    w, random = fixture(seed, steps=20), Random(seed)
    try:
        lines, meta = injected(w, IN_CALLS[name]) if name else (w.lines, w.meta)
    except NotHere:
        assume(False)
        return
    if not safe:
        as_configured(meta, random)
    reported: set[str] = set()
    with TemporaryDirectory() as run:
        watch = Watch(Path(run), strict, keep=random.choice([20, 50_000]))
        for _ in Growing(Path(run), lines, meta, random).steps(12):
            step = watch.step()
            assert not step.withdrawn
            reported |= {finding.check.id for finding in step.findings}
        assert watch.folder.ended
        final = judged(Path(run), strict=strict)
    assert reported <= said(final, "violated")
    event(f"told early: {len(reported)} of {len(said(final, 'violated'))}")
