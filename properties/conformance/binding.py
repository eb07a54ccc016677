"""A binding: real machines composed so that each step is an action of the spec.

A binding composes and translates; it decides nothing. The machines decide by a `Refusal` if an
action may happen. A binding's own refusals are of three kinds, each with its own class, so that a
reader sees that no rule of the protocol hides there.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from properties.tla import InputError, Value, spec_actions, spec_variables
from refimpl.errors import Refusal
from refimpl.projection import Projection

M = TypeVar("M")


class Bound(Refusal):
    """The model ends here; the machine would go on."""


class Environment(Refusal):
    """This configuration excludes the step: no disk loses data, or no message is late."""


class OtherAction(Refusal):
    """The machines might act, but not as the action's name and arguments say."""


class NoSuchChoice(Refusal):
    """An action that chooses has no further candidate."""


class Binding(ABC):
    r"""A composed system: one method per action of the spec, one function per variable.

    A method bears its action's name in snake_case and has its parameters. An action that chooses
    from the state (`\E m \in late`) has one more, `choice`: the number of the candidate, in a fixed
    order, up to `NoSuchChoice`.
    """

    module: ClassVar[str]
    variant: ClassVar[str] = ""
    """The machines' files, if states cannot be loaded into them."""
    knobs: ClassVar[Mapping[str, Value]]
    """Constants with the value that the machines implement."""
    projection: ClassVar[Mapping[str, Callable[[Any], Value]]]
    """The machines' value of each variable of the spec, by its name there."""

    @abstractmethod
    def __init__(self, constants: Mapping[str, Value]) -> None:
        """The initial state."""

    @abstractmethod
    def load(self, state: Mapping[str, Value]) -> None:
        """Become a state of the spec. Only the exhaustive check may do so."""

    @classmethod
    def actions(cls) -> dict[str, tuple[str, ...]]:
        """The actions that have a method, with its parameters."""
        bindings = [one for one in reversed(cls.__mro__) if issubclass(one, Binding)][1:]
        methods = {name: value for one in bindings for name, value in vars(one).items()}
        own = {k: f for k, f in methods.items() if inspect.isfunction(f) and k[0] != "_"}
        return {
            pascal_case(name): tuple(p for p in list(inspect.signature(f).parameters)[1:])
            for name, f in own.items()
            if name != "load"
        }

    def abstract(self) -> dict[str, Value]:
        """The state of the spec that this system is in."""
        return {name: look(self) for name, look in self.projection.items()}


def of(projection: Projection[M], machine: Callable[[Any], M]) -> dict[str, Callable[[Any], Value]]:
    """The variables that one machine of a binding holds."""
    return {name: partial(_of, look, machine) for name, look in projection.items()}


def each(
    projection: Projection[M], machines: Callable[[Any], Iterable[M]]
) -> dict[str, Callable[[Any], Value]]:
    """The variables of which each of several machines holds its own part: functions on 1..n."""
    return {name: partial(_each, look, machines) for name, look in projection.items()}


def _of(look: Callable[[M], Value], machine: Callable[[Any], M], system: Any) -> Value:
    return look(machine(system))


def _each(look: Callable[[M], Value], machines: Callable[[Any], Iterable[M]], system: Any) -> Value:
    return tuple(map(look, machines(system)))


CHOICE = "choice"


def check_names(binding: type[Binding]) -> None:
    """Every action, parameter and variable of the spec has its counterpart, and nothing else has.

    Raises an error that names what differs.
    """
    wrong = [*_wrong_actions(binding), *_wrong_variables(binding)]
    if wrong:
        raise InputError(f"{binding.__name__} and {binding.module}.tla differ: {'; '.join(wrong)}")


def _wrong_actions(binding: type[Binding]) -> list[str]:
    spec, code = spec_actions(binding.module), binding.actions()
    wrong = [f"no method for {name}" for name in spec if name not in code]
    wrong += [f"no action for {snake_case(name)}()" for name in code if name not in spec]
    for name in sorted(spec.keys() & code.keys()):
        formals = tuple(formal for formal in code[name] if formal != CHOICE)
        if formals != tuple(map(snake_case, spec[name])):
            wrong.append(f"{name}({', '.join(spec[name])}) is bound with ({', '.join(formals)})")
    return wrong


def _wrong_variables(binding: type[Binding]) -> list[str]:
    spec, code = spec_variables(binding.module), binding.projection
    wrong = [f"no projection to {name}" for name in spec if name not in code]
    return wrong + [f"no variable {name}" for name in code if name not in spec]


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def pascal_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
