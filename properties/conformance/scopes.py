"""Which machines are held against which configurations: `[scopes]` of each `verdicts.toml`."""

from collections.abc import Iterator

from properties.conformance.binding import check_names
from properties.conformance.scope import Scope
from properties.modules.descriptor import module, modules
from properties.tla import InputError, SpecTree


def scopes(names: tuple[str, ...] = (), cfgs: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """The scopes of these modules, or of all; only those configurations, if any are named."""
    asked = [module(name) for name in names] or list(modules().values())
    known = [(one.name, cfg) for one in asked for cfg in one.table().scopes.conform]
    for cfg in cfgs:
        if cfg not in (name for _, name in known):
            there_are = ", ".join(name for _, name in known)
            raise InputError(f"no scope {cfg!r} (there are: {there_are})")
    return [(name, cfg) for name, cfg in known if not cfgs or cfg in cfgs]


def load(chosen: list[tuple[str, str]], tree: SpecTree | None = None) -> Iterator[Scope]:
    """The scopes one by one, after the names of their modules have been compared."""
    for name in dict.fromkeys(name for name, _ in chosen):
        check_names(module(name).binding)
    for name, cfg in chosen:
        yield Scope.of(module(name).binding, cfg, tree)
        on_disk = module(name).on_disk
        if on_disk is not None and cfg in module(name).table(tree).scopes.disk:
            yield Scope.of(on_disk, cfg, tree)
