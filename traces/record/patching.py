"""Recording of clients that an application makes by itself: their classes are replaced.

A class of C cannot be patched in place, so its name is, in every module that has it, and so are
subclasses of it. Each stand-in is a subclass of what it stands for, and makes recorded clients.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, cast
from warnings import catch_warnings, simplefilter

from attrs import define, field

#: The classes of clients by the modules that export them; modules below these are the library's own
CLASSES: Mapping[str, tuple[str, ...]] = {
    "confluent_kafka": (*("Producer", "Consumer", "SerializingProducer", "DeserializingConsumer"),),
    "kafka": ("KafkaProducer", "KafkaConsumer"),
    "aiokafka": ("AIOKafkaProducer", "AIOKafkaConsumer"),
}
LIBRARIES = tuple(f"{name}." for name in CLASSES)
#: Where the classes are that take a dictionary of settings
BY_SETTINGS = ("confluent_kafka", "cimpl")
OURS = ("traces.", "refimpl.")

Record = Callable[..., Any]
"""Takes a class and its settings, or an instance, and answers the recorded client."""


class _StandIn(type):
    """The class of stand-ins: calling one makes a recorded client."""

    highwater_kind: type
    highwater_record: Record

    def __call__(cls, *args: Any, **more: Any) -> Any:
        """A client, recorded."""
        kind: type = cls.highwater_kind
        settings: Any = args[0] if args else {}
        if kind.__module__.startswith(BY_SETTINGS) and kind.__name__ in CLASSES["confluent_kafka"]:
            return cls.highwater_record(kind, {**settings, **more})
        made = type.__call__(cls, *args, **more)
        return cls.highwater_record(made, settings if isinstance(settings, dict) else None)

    def __instancecheck__(cls, instance: Any) -> bool:
        """A recorded client counts as what it is made of."""
        return isinstance(getattr(instance, "_client", instance), cls.highwater_kind)


@define(eq=False)
class Patch:
    """The replacement of classes, from `begin` to `undo`."""

    record: Record
    _undo: list[tuple[Any, str, Any]] = field(factory=list[tuple[Any, str, Any]], init=False)
    _made: dict[type, type] = field(factory=dict[type, type], init=False)

    def begin(self) -> list[str]:
        """Replace the classes of all libraries that are installed; answers which these are."""
        libraries = list(self._libraries())
        bases = tuple(getattr(lib, one) for lib in libraries for one in CLASSES[lib.__name__])
        for name, module in list(sys.modules.items()):
            if module is not None and not name.startswith((*LIBRARIES, *OURS)):  # pyright: ignore
                self._replace(module, bases)
        return [one.__name__ for one in libraries]

    def _libraries(self) -> Iterator[ModuleType]:
        for name, classes in CLASSES.items():
            with suppress(ImportError), catch_warnings():
                simplefilter("ignore")  # theirs, which a test may have made errors
                found = import_module(name)
                if all(hasattr(found, one) for one in classes):
                    yield found

    def _replace(self, module: ModuleType, bases: tuple[type, ...]) -> None:
        for name, value in list(cast("dict[str, Any]", getattr(module, "__dict__", {})).items()):
            if _is_client(value, bases):
                self._undo.append((module, name, value))
                setattr(module, name, self._stand_in(value))

    def _stand_in(self, kind: type) -> type:
        if kind not in self._made:
            namespace = {
                "__module__": kind.__module__,
                "__doc__": kind.__doc__,
                "highwater_kind": kind,
                "highwater_record": staticmethod(self.record),
            }
            self._made[kind] = _StandIn(kind.__name__, (kind,), namespace)
        return self._made[kind]

    def undo(self) -> None:
        """Put back what was replaced."""
        for module, name, value in reversed(self._undo):
            setattr(module, name, value)
        self._undo.clear()


def _is_client(value: Any, bases: tuple[type, ...]) -> bool:
    if not isinstance(value, type) or isinstance(value, _StandIn):
        return False
    return any(base in value.__mro__ for base in bases)
