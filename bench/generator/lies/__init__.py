"""Lies that a generated trace may tell; `registry` tells what a lie is."""

from importlib import import_module
from pkgutil import iter_modules

from bench.generator.lies.registry import LIES, Lie
from bench.generator.lies.slot import Slot, slots

__all__ = ["LIES", "Lie", "Slot", "slots"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
