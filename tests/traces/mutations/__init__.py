"""Anomalies in a fixture that keeps its promises; `registry` tells how to add one."""

from importlib import import_module
from pkgutil import iter_modules

from tests.traces.mutations.registry import MUTATIONS, Lines, Mutation, NotHere, injected, mutation

__all__ = ["MUTATIONS", "Lines", "Mutation", "NotHere", "injected", "mutation"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
