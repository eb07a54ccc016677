"""A million fuzzed frames against a broker: `make fuzz`.

Guided by coverage where atheris is installed: frames that reach new code are kept in
`build/fuzz/corpus` and mutated further, also by the next run. Without it, mutations are of the same
frames each time. What a frame has broken is written to a file, with all that its broker was fed
before, which `--replay` feeds again.
"""

import argparse
import io
import os
import sys
import time
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from typing import Any

FOLDER = Path("build/fuzz")
PEER = 4
"""Every so many frames one goes to the port for other brokers."""


def main() -> int:
    """Exit 0 if nothing was broken, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--plain", action="store_true", help="Not guided by coverage.")
    parser.add_argument("--replay", type=Path, help="Feed the frames of this file.")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    if given.replay:
        return _replay(given.replay)
    guide = None if given.plain else _atheris()
    how = "not guided" if guide is None else "guided by coverage"
    print(f"{given.frames} frames, seed {seed}, {how}", flush=True)
    if guide is None:
        return _plain(given.frames, seed)
    return _guided(guide, given.frames, seed)


def _atheris() -> Any:
    try:
        atheris: Any = import_module("atheris")
    except ModuleNotFoundError:
        print("atheris is not installed; mutating without it")
        return None
    with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["refimpl"]):
        from refimpl.api.table import APIS
        from tests.fuzz import target

        assert target
        for api in APIS.values():
            assert api.handle  # which imports it
    return atheris


def _plain(frames: int, seed: int) -> int:
    from tests.fuzz.frames import mutated, seeds
    from tests.fuzz.target import Target

    rng, corpus = Random(seed), seeds()
    campaign = Campaign(Target(), frames)
    while campaign.goes_on():
        if not campaign.feed(mutated(rng, rng.choice(corpus), corpus)):
            return 1
    return 0


def _guided(atheris: Any, frames: int, seed: int) -> int:
    from tests.fuzz.frames import MOST, mutated, seeds
    from tests.fuzz.target import Target

    corpus = seeds()
    folder = FOLDER / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(corpus):
        (folder / f"seed-{number}").write_bytes(frame)
    campaign = Campaign(Target(), frames)

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
        base = rng.choice(corpus) if not data or rng.random() < 0.6 else data
        return mutated(rng, base, corpus)[:most]

    options = [sys.argv[0], str(folder), f"-seed={seed % 2**31}", f"-max_len={MOST}", "-timeout=60"]
    options += ["-rss_limit_mb=3000", "-verbosity=0", "-len_control=0"]
    atheris.Setup(options, test, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


class Campaign:
    """So many frames, with a line for each tenth of them."""

    def __init__(self, target: Any, frames: int) -> None:
        self.target, self.frames = target, frames
        self.every = max(frames // 10, 1)

    def feed(self, data: bytes) -> bool:
        """One frame; answers whether nothing was broken by it."""
        target = self.target
        rng = Random(len(data))
        try:
            if target.frames % PEER == PEER - 1:
                target.feed_peer(data)
            else:
                chunk = rng.choice((0, 0, 0, 0, 1, 7, 100))
                target.feed(data, chunk=chunk, framed=bool(data) and data[-1] != 0xFE)
        except Exception as error:
            path = _written(target.history)
            print(f"{type(error).__name__}: {error}\n\tby frame {target.frames}: {data[:100]!r}")
            print(f"To see it again: python -m tests.fuzz --replay {path}")
            return False
        return True

    def goes_on(self) -> bool:
        """Whether there are frames left."""
        target = self.target
        if target.frames % self.every == 0 or target.frames >= self.frames:
            spent = time.process_time()
            print(
                f"{target.frames} frames, {target.answered} answered, {target.refused} refused;"
                f" {spent:.0f} CPU-s",
                flush=True,
            )
        return target.frames < self.frames


def _written(history: list[bytes]) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"failure-{int(time.time())}.frames"
    path.write_bytes(b"".join(pack(">i", len(one)) + one for one in history))
    return path


def _replay(path: Path) -> int:
    from tests.fuzz.target import Target

    data, position = path.read_bytes(), 0
    campaign = Campaign(Target(), sys.maxsize)
    while position < len(data):
        (size,) = unpack_from(">i", data, position)
        if not campaign.feed(data[position + 4 : position + 4 + size]):
            return 1
        position += 4 + size
    print("nothing was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
