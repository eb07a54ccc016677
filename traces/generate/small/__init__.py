"""Small traces, made call by call, and anomalies in them; `registry` tells how to add one."""

from importlib import import_module
from pkgutil import iter_modules

from traces.generate.small.registry import IN_CALLS, InCalls, Lines, NotHere, injected
from traces.generate.small.run import small_run, write_small

__all__ = ["IN_CALLS", "InCalls", "Lines", "NotHere", "injected", "small_run", "write_small"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
