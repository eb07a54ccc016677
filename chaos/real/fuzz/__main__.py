"""A million fuzzed frames against a broker: `make fuzz`.

What a frame has broken is written to a file, with all that its broker was fed before, which
`--replay` feeds again.
"""

import sys
import time
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from typing import Any

from chaos.real.fuzz import guided

PEER = 4
"""Every so many frames one goes to the port for other brokers."""


def main() -> int:
    """Exit 0 if nothing was broken, 1 otherwise."""
    given = guided.arguments("fuzz", __doc__, unit="frames", inputs=1_000_000)
    if given.replay:
        return _replay(given.replay)
    fuzzer = None if given.plain else guided.atheris("refimpl", _load)
    how = "not guided" if fuzzer is None else "guided by coverage"
    print(f"{given.inputs} frames, seed {given.seed}, {how}", flush=True)
    campaign = Frames(given.inputs)
    return guided.run(fuzzer, campaign, _corpus(), given.seed, guided.FOLDER / "corpus")


def _load() -> None:
    """Import what answers requests, all of it."""
    from chaos.real.fuzz import target
    from refimpl.api.table import APIS

    assert target
    for api in APIS.values():
        assert api.handle  # which imports it


def _corpus() -> guided.Corpus:
    from chaos.real.fuzz.frames import MOST, mutated, seeds

    frames = seeds()
    return guided.Corpus(frames, lambda rng, frame: mutated(rng, frame, frames), MOST)


class Frames(guided.Campaign):
    """Frames for one broker, now and then for its port of other brokers."""

    def __init__(self, frames: int) -> None:
        from chaos.real.fuzz.target import FuzzedBroker

        super().__init__(frames)
        self.target: Any = FuzzedBroker()

    def feed(self, data: bytes) -> bool:
        """One frame; answers whether nothing was broken by it."""
        target = self.target
        rng = Random(len(data))
        self.done += 1
        try:
            if target.frames % PEER == PEER - 1:
                target.feed_peer(data)
            else:
                chunk = rng.choice((0, 0, 0, 0, 1, 7, 100))
                target.feed(data, chunk=chunk, framed=bool(data) and data[-1] != 0xFE)
        except Exception as error:
            path = _written(target.history)
            print(f"{type(error).__name__}: {error}\n\tby frame {target.frames}: {data[:100]!r}")
            print(f"To see it again: python -m chaos.real.fuzz --replay {path}")
            return False
        return True

    def summary(self) -> str:
        """The numbers of frames that were answered and refused."""
        target = self.target
        return f"{target.frames} frames, {target.answered} answered, {target.refused} refused"


def _written(history: list[bytes]) -> Path:
    guided.FOLDER.mkdir(parents=True, exist_ok=True)
    path = guided.FOLDER / f"failure-{int(time.time())}.frames"
    path.write_bytes(b"".join(pack(">i", len(one)) + one for one in history))
    return path


def _replay(path: Path) -> int:
    data, position = path.read_bytes(), 0
    campaign = Frames(sys.maxsize)
    while position < len(data):
        (size,) = unpack_from(">i", data, position)
        if not campaign.feed(data[position + 4 : position + 4 + size]):
            return 1
        position += 4 + size
    print("nothing was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
