"""The scopes of conformance: machines and configurations from each `verdicts.toml`'s `[scopes]`."""

from collections.abc import Iterable

from attrs import frozen

from properties.conformance.binding import check_names
from properties.conformance.scope import ConformanceScope
from properties.modules.descriptor import module, modules
from properties.tla import InputError, SpecTree, graph
from properties.tla.verdicts import Table


def scopes(
    names: tuple[str, ...] = (), cfgs: tuple[str, ...] = (), *, full: bool = True
) -> list[tuple[str, str]]:
    """The scopes of these modules, or of all; only those configurations, if any are named.

    Where none is named and not `full`, those that the tables mark as large are left out.
    """
    asked = [module(name) for name in names] or list(modules().values())
    known = [(one.name, cfg) for one in asked for cfg in _of(one.table(), full or bool(cfgs))]
    for cfg in cfgs:
        if cfg not in (name for _, name in known):
            there_are = ", ".join(name for _, name in known)
            raise InputError(f"no scope {cfg!r} (there are: {there_are})")
    return [(name, cfg) for name, cfg in known if not cfgs or cfg in cfgs]


def _of(table: Table, full: bool) -> list[str]:
    """A table's scopes, with those for mutants: without a mutant they must conform."""
    named = dict.fromkeys((*table.scopes.conform, *table.scopes.mutants))
    return [cfg for cfg in named if full or not table.row(cfg).full]


@frozen
class WantedScope:
    """A scope that is to be checked, before its graph is read."""

    module: str
    cfg: str
    on_disk: bool = False

    def load(self) -> ConformanceScope:
        """The scope with its graph, from the cache or from TLC."""
        asked = module(self.module)
        binding = (self.on_disk and asked.on_disk) or asked.binding
        return ConformanceScope.of(binding, self.cfg)


def wanted(
    names: tuple[str, ...] = (), cfgs: tuple[str, ...] = (), *, full: bool = True
) -> list[WantedScope]:
    """The same, each followed by itself on Kafka's files where its module's table says so.

    Raises `InputError` if the names of a module and its machines differ.
    """
    chosen = scopes(names, cfgs, full=full)
    for name in dict.fromkeys(name for name, _ in chosen):
        check_names(module(name).binding)
    found: list[WantedScope] = []
    for name, cfg in chosen:
        found.append(WantedScope(name, cfg))
        if module(name).on_disk is not None and cfg in module(name).table().scopes.disk:
            found.append(WantedScope(name, cfg, on_disk=True))
    return found


def by_module(chosen: Iterable[WantedScope]) -> list[tuple[str, list[str]]]:
    """The configurations of each module, each once; where there are most of them, first."""
    found: dict[str, dict[str, None]] = {}
    for one in chosen:
        found.setdefault(one.module, {})[one.cfg] = None
    return sorted(((name, [*cfgs]) for name, cfgs in found.items()), key=lambda one: -len(one[1]))


def make_graphs(module: str, cfgs: Iterable[str]) -> None:
    """Make the graphs of these configurations, as far as the cache does not have them."""
    tree = SpecTree()
    graph.make_graphs(module, [tree.model(module, cfg) for cfg in cfgs], tree)
