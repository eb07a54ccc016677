"""Which machines are held against which configurations."""

from collections.abc import Iterator

from properties.conformance.abs_log import AbsLog
from properties.conformance.binding import Binding, check_names
from properties.conformance.consumer_commit import ConsumerCommit
from properties.conformance.durable_isr import DurableIsr
from properties.conformance.scope import Scope
from properties.conformance.truncation import Truncation
from properties.tla import InputError, SpecTree

BINDINGS: dict[str, type[Binding]] = {
    one.module: one for one in (AbsLog, Truncation, DurableIsr, ConsumerCommit)
}

#: The configurations of each module that the machines can be set up for, small ones first. A
#: configuration in which a promise breaks will do as well: the machines must then break it too.
SCOPES: dict[str, tuple[str, ...]] = {
    "AbsLog": ("ok", "ok_loss_allowed", "ok_three_readers"),
    "Truncation": (
        "ok_kip320_2",
        "ok_kip320_2_late_restart",
        "ok_kip320_2_outsider",
        "ok_kip320_2_late",
        "ok_kip320_2_restart",
        "ok_kip320_3",
    ),
    "DurableIsr": (
        "ok_kip966_1_crash",
        "bug_before_kip966",
        "ok_flush_each",
        "ok_kip966_min_isr_3",
        "ok_kip966_2_crashes",
        "bug_unclean",
    ),
    "ConsumerCommit": (
        "ok_auto_commit_monotone",
        "ok_commit_then_process",
        "ok_process_then_commit",
    ),
}


def scopes(modules: tuple[str, ...] = (), cfgs: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """The scopes of these modules, or of all; only those configurations, if any are named."""
    for module in modules:
        if module not in SCOPES:
            raise InputError(f"no machines for {module!r} (there are: {', '.join(SCOPES)})")
    chosen = [(m, c) for m in modules or SCOPES for c in SCOPES[m] if not cfgs or c in cfgs]
    for cfg in cfgs:
        if cfg not in (known for _, known in chosen):
            known = ", ".join(c for m in modules or SCOPES for c in SCOPES[m])
            raise InputError(f"no scope {cfg!r} (there are: {known})")
    return chosen


def load(chosen: list[tuple[str, str]], tree: SpecTree | None = None) -> Iterator[Scope]:
    """The scopes one by one, after the names of their modules have been compared."""
    for module in dict.fromkeys(module for module, _ in chosen):
        check_names(BINDINGS[module])
    for module, cfg in chosen:
        yield Scope.of(BINDINGS[module], cfg, tree)
