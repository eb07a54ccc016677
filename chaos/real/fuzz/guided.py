"""The common part of campaigns of fuzzed bytes: their arguments, their pace, and libFuzzer.

Guided by coverage where atheris is installed: bytes that reach new code are kept in a folder and
mutated further, also by the next run. Without it, mutations are of the same seeds each time.
"""

import io
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from attrs import frozen

FOLDER = Path("build/fuzz")


class Campaign:
    """So many inputs, with a line for each tenth of them."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.done: int = 0
        self.every = max(inputs // 10, 1)

    def feed(self, data: bytes) -> bool:
        """One input; answers whether nothing was broken by it."""
        raise NotImplementedError

    def summary(self) -> str:
        """The outcome of the inputs so far."""
        raise NotImplementedError

    def goes_on(self) -> bool:
        """True while there are inputs left."""
        if self.done % self.every == 0 or self.done >= self.inputs:
            print(f"{self.summary()}; {time.process_time():.0f} CPU-s", flush=True)
        return self.done < self.inputs


@frozen
class Corpus:
    """Good inputs, and how one is mutated."""

    seeds: Sequence[bytes]
    mutated: Callable[[Random, bytes], bytes]
    most: int
    """bytes that an input may have"""


def arguments(name: str, about: str | None, *, unit: str, inputs: int) -> Namespace:
    """The arguments of the command line: `inputs`, `seed`, `plain`, `replay`."""
    parser = ArgumentParser(prog=f"make {name}", description=about)
    parser.add_argument(f"--{unit}", type=int, default=inputs, dest="inputs")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--plain", action="store_true", help="Not guided by coverage.")
    parser.add_argument("--replay", type=Path, help="Feed what this file holds.")
    return parser.parse_args()


def atheris(package: str, load: Callable[[], object]) -> Any:
    """The fuzzer, after what `load` imports of a package was instrumented; None without it."""
    try:
        fuzzer: Any = import_module("atheris")
    except ModuleNotFoundError:
        print("atheris is not installed; mutating without it")
        return None
    with redirect_stderr(io.StringIO()), fuzzer.instrument_imports(include=[package]):
        load()
    return fuzzer


def run(fuzzer: Any, campaign: Campaign, corpus: Corpus, seed: int, folder: Path) -> int:
    """The campaign, guided by a fuzzer if there is one: 0 if nothing was broken, 1 otherwise."""
    if fuzzer is None:
        return _plain(campaign, corpus, Random(seed))
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(corpus.seeds):
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
            return fuzzer.Mutate(data, most)
        base = rng.choice(corpus.seeds) if not data or rng.random() < 0.6 else data
        return corpus.mutated(rng, base)[:most]

    options = [sys.argv[0], str(folder), f"-seed={seed % 2**31}", f"-max_len={corpus.most}"]
    options += ["-timeout=120", "-rss_limit_mb=3000", "-verbosity=0", "-len_control=0"]
    fuzzer.Setup(options, test, custom_mutator=mutate)
    fuzzer.Fuzz()
    return 0


def _plain(campaign: Campaign, corpus: Corpus, rng: Random) -> int:
    while campaign.goes_on():
        if not campaign.feed(corpus.mutated(rng, rng.choice(corpus.seeds))):
            return 1
    return 0
