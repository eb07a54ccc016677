"""Fuzzed bytes for every reader of traces: `make fuzz-traces`.

Guided by coverage where atheris is installed: bytes that reach new code are kept in
`build/fuzz/traces` and mutated further, also by the next run. Without it, mutations are of the same
recordings each time. The first byte says which reader is meant. What was neither read nor refused,
or what the two checkers judge differently, is written to a file, which `--replay` feeds again.
"""

import argparse
import io
import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

FOLDER = Path("build/fuzz")
MOST = 1 << 16


def main() -> int:
    """Exit 0 if nothing was broken, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="make fuzz-traces", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--plain", action="store_true", help="Not guided by coverage.")
    parser.add_argument("--replay", type=Path, help="Feed the bytes of this file.")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    guide = None if given.plain or given.replay else _atheris()
    campaign = Campaign(given.inputs)
    if given.replay:
        return 0 if campaign.feed(given.replay.read_bytes()) else 1
    how = "not guided" if guide is None else "guided by coverage"
    print(f"{given.inputs} inputs for readers of traces, seed {seed}, {how}", flush=True)
    return _plain(campaign, seed) if guide is None else _guided(guide, campaign, seed)


def _atheris() -> Any:
    try:
        atheris: Any = import_module("atheris")
    except ModuleNotFoundError:
        print("atheris is not installed; mutating without it")
        return None
    with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["traces"]):
        from tests.traces.fuzz import readers

        assert readers
    return atheris


def corpus() -> list[bytes]:
    """Good recordings, each behind the byte that names its reader."""
    from tests.traces.fuzz.readers import READERS

    return [
        bytes([number]) + content
        for number, reader in enumerate(READERS.values())
        for content in reader.seeds
    ]


def _plain(campaign: "Campaign", seed: int) -> int:
    from tests.fuzz.frames import mutated

    rng, good = Random(seed), corpus()
    while campaign.goes_on():
        base = rng.choice(good)
        if not campaign.feed(base[:1] + mutated(rng, base[1:], [one[1:] for one in good])):
            return 1
    return 0


def _guided(atheris: Any, campaign: "Campaign", seed: int) -> int:
    from tests.fuzz.frames import mutated

    good: Sequence[bytes] = corpus()
    folder = FOLDER / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(good):
        (folder / f"seed-{number}").write_bytes(content)

    def test(data: bytes) -> None:
        if not campaign.feed(data):
            os._exit(1)
        if not campaign.goes_on():
            sys.stdout.flush()
            os._exit(0)  # libFuzzer never returns

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = Random(seed)
        if data and rng.random() < 0.3:
            return atheris.Mutate(data, most)
        base = rng.choice(good) if not data or rng.random() < 0.6 else data
        return (base[:1] + mutated(rng, base[1:], [one[1:] for one in good]))[:most]

    options = [sys.argv[0], str(folder), f"-seed={seed % 2**31}", f"-max_len={MOST}"]
    options += ["-timeout=120", "-rss_limit_mb=3000", "-verbosity=0", "-len_control=0"]
    atheris.Setup(options, test, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


class Campaign:
    """So many inputs, with a line for each tenth of them."""

    def __init__(self, inputs: int) -> None:
        self.inputs, self.done, self.taken = inputs, 0, 0
        self.every = max(inputs // 10, 1)

    def feed(self, data: bytes) -> bool:
        """One input; answers whether it was read or refused."""
        from tests.traces.fuzz.readers import READERS, feed

        name = list(READERS)[data[0] % len(READERS)] if data else "lines"
        self.done += 1
        try:
            self.taken += feed(name, data[1:])
        except Exception:
            path = FOLDER / f"failure-{name}-{time.time_ns()}.bytes"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            traceback.print_exc()
            print(f"To see it again: python -m tests.traces.fuzz --replay {path}", flush=True)
            return False
        return True

    def goes_on(self) -> bool:
        """Whether there are inputs left."""
        if self.done % self.every == 0 or self.done >= self.inputs:
            spent = time.process_time()
            print(f"{self.done} inputs, {self.taken} read; {spent:.0f} CPU-s", flush=True)
        return self.done < self.inputs


if __name__ == "__main__":
    sys.exit(main())
