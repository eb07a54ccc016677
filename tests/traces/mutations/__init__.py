"""Lies about a world that keeps its promises; `registry` tells how to add one."""

from importlib import import_module
from pkgutil import iter_modules

from tests.traces.mutations.registry import MUTATIONS, Lines, Mutation, NotHere, mutation, told

__all__ = ["MUTATIONS", "Lines", "Mutation", "NotHere", "mutation", "told"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
