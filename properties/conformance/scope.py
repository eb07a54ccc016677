"""A scope: one configuration of a spec, its whole graph, and the machines bound to it."""

from collections.abc import Mapping

from attrs import field, frozen

from properties.conformance.binding import Binding
from properties.tla import Graph, InputError, SpecTree, Value, load_graph, parse
from properties.tla.specs import ModelConfig


@frozen(eq=False)
class ConformanceScope:
    """Everything that a check of one configuration needs."""

    binding: type[Binding]
    cfg: str
    constants: Mapping[str, Value]
    graph: Graph = field(repr=False)

    @classmethod
    def of(
        cls, binding: type[Binding], cfg: str, tree: SpecTree | None = None
    ) -> "ConformanceScope":
        """The scope of a configuration by its name."""
        tree = tree or SpecTree()
        constants = constants_of(ModelConfig.read(tree.model(binding.module, cfg)))
        for name, value in binding.knobs.items():
            if constants.get(name) != value:
                raise InputError(
                    f"{binding.module}/{cfg}: {name} is {constants.get(name)!r}, and the machines "
                    f"are written for {value!r}"
                )
        return cls(binding, cfg, constants, load_graph(binding.module, cfg, tree))

    @property
    def name(self) -> str:
        return " ".join(filter(None, (f"{self.binding.module}/{self.cfg}", self.binding.variant)))

    def system(self) -> Binding:
        """The machines in their initial state, made anew."""
        return self.binding(self.constants)


def constants_of(config: ModelConfig) -> dict[str, Value]:
    """The constants of a configuration, as values."""
    return {name: parse(text) for name, text in config.assigned().items()}
