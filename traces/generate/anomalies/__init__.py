"""Anomalies that can be injected into a generated trace; `registry` says what an anomaly is."""

from importlib import import_module
from pkgutil import iter_modules

from traces.generate.anomalies.registry import IN_ROWS, InRows
from traces.generate.anomalies.slot import Slot, slots

__all__ = ["IN_ROWS", "InRows", "Slot", "slots"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
