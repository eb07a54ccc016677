"""How a known bug is put into the machines, and taken out again.

A mutant replaces methods of the machines' classes while it is applied, so everything that is built
from those classes has the bug: the bindings here, and the simulator's brokers.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from attrs import frozen

from properties.modules.descriptor import modules

Patches: TypeAlias = Mapping[tuple[type, str], Any]


@frozen
class Mutant:
    """A bug with a name, why it is one, and where Kafka met it."""

    name: str
    why: str
    patches: Patches
    modules: tuple[str, ...]
    """The specs whose machines have it."""
    kafka: str = ""
    equivalent: str = ""
    """Why nothing can tell it from the original, if that is so."""


_shelf: dict[str, Mutant] = {}


def shelve(mutant: Mutant) -> None:
    """Put a mutant on the shelf, under its name."""
    if mutant.name in _shelf:
        raise ValueError(f"two mutants are called {mutant.name}")
    _shelf[mutant.name] = mutant


def breaks(
    kind: type, attribute: str, modules: tuple[str, ...], kafka: str = "", equivalent: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function below stands for a method of this class; its docstring says what is wrong."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        why = " ".join((function.__doc__ or "").split())
        stands_in = property(function) if isinstance(vars(kind)[attribute], property) else function
        patches = {(kind, attribute): stands_in}
        shelve(Mutant(function.__name__, why, patches, modules, kafka, equivalent))
        return function

    return decorate


def shelf() -> dict[str, Mutant]:
    """All mutants by name, in the order of the files that the modules' descriptors name."""
    for module in modules().values():
        for file in module.mutants:
            import_module(f"properties.mutants.{file}")
    return dict(_shelf)


@contextmanager
def applied(mutant: Mutant) -> Generator[Mutant]:
    """The machines with this bug, for as long as the block lasts."""
    originals = {place: vars(place[0])[place[1]] for place in mutant.patches}
    try:
        for (kind, attribute), patch in mutant.patches.items():
            setattr(kind, attribute, patch)
        yield mutant
    finally:
        for (kind, attribute), original in originals.items():
            setattr(kind, attribute, original)
