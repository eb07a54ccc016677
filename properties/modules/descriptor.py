"""The descriptor of one TLA+ module: its particular parts, for code that knows no module.

Conformance, mutants and tests find everything through it. The module's `verdicts.toml`, beside the
spec, has its configurations and their expected results.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from attrs import frozen

import properties.modules as folder
from properties.conformance.binding import Binding
from properties.tla import InputError, SpecTree
from properties.tla.verdicts import Table, load


@frozen
class Module:
    """One TLA+ module and its counterparts in Python."""

    binding: type[Binding]
    """The machines put together: its methods are the actions, its `projection` the variables."""
    machines: tuple[str, ...]
    """The files in `refimpl/machines` that hold the rules.

    The known bugs of each are in `properties/mutants/machines`, in a file of the same name.
    """
    on_disk: type[Binding] | None = None
    """The same binding on Kafka's files, for real paths only: no state is loaded into it."""
    recorded: str | None = None
    """The spec to which the simulator's recordings of these machines are held, None without any."""

    @property
    def name(self) -> str:
        return self.binding.module

    def table(self, tree: SpecTree | None = None) -> Table:
        """The module's `verdicts.toml`."""
        return load(self.name, tree or SpecTree())


@cache
def modules() -> Mapping[str, Module]:
    """Every descriptor in this folder, by the name of its TLA+ module."""
    files = [
        one.name
        for one in iter_modules(folder.__path__)
        if one.name not in ("descriptor", "on_disk", "replicated")
    ]
    found = [import_module(f"{folder.__name__}.{name}").MODULE for name in files]
    return {module.name: module for module in found}


def module(name: str) -> Module:
    """One descriptor. Raises `InputError` that names all if there is none."""
    if name not in modules():
        raise InputError(f"no machines for {name!r} (there are: {', '.join(modules())})")
    return modules()[name]
