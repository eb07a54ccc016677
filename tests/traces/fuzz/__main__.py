"""Fuzzed bytes for every reader of traces: `make fuzz-traces`.

The first byte says which reader is meant. What was neither read nor refused, or what the two
checkers judge differently, is written to a file, which `--replay` feeds again.
"""

import sys
import time
import traceback
from random import Random

from chaos.real.fuzz import guided

MOST = 1 << 16


def main() -> int:
    """Exit 0 if nothing was broken, 1 otherwise."""
    given = guided.arguments("fuzz-traces", __doc__, unit="inputs", inputs=20_000)
    campaign = Inputs(given.inputs)
    if given.replay:
        return 0 if campaign.feed(given.replay.read_bytes()) else 1
    fuzzer = None if given.plain else guided.atheris("traces", _load)
    how = "not guided" if fuzzer is None else "guided by coverage"
    print(f"{given.inputs} inputs for readers of traces, seed {given.seed}, {how}", flush=True)
    return guided.run(fuzzer, campaign, _corpus(), given.seed, guided.FOLDER / "traces")


def _load() -> None:
    from tests.traces.fuzz import readers

    assert readers


def _corpus() -> guided.Corpus:
    """Good recordings, each behind the byte that names its reader."""
    from chaos.real.fuzz.frames import mutated
    from tests.traces.fuzz.readers import READERS

    contents = [
        (bytes([number]), content)
        for number, reader in enumerate(READERS.values())
        for content in reader.seeds
    ]
    others = [content for _, content in contents]

    def change(rng: Random, data: bytes) -> bytes:
        return data[:1] + mutated(rng, data[1:], others)

    return guided.Corpus([reader + content for reader, content in contents], change, MOST)


class Inputs(guided.Campaign):
    """Bytes for the readers, of which some are read."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.taken = 0

    def feed(self, data: bytes) -> bool:
        """One input; answers whether it was read or refused."""
        from tests.traces.fuzz.readers import READERS, feed

        name = list(READERS)[data[0] % len(READERS)] if data else "lines"
        self.done += 1
        try:
            self.taken += feed(name, data[1:])
        except Exception:
            path = guided.FOLDER / f"failure-{name}-{time.time_ns()}.bytes"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            traceback.print_exc()
            print(f"To see it again: python -m tests.traces.fuzz --replay {path}", flush=True)
            return False
        return True

    def summary(self) -> str:
        """The number of inputs that were read."""
        return f"{self.done} inputs, {self.taken} read"


if __name__ == "__main__":
    sys.exit(main())
