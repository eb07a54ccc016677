"""The loggers of this process and their levels, by Kafka's names (KIP-412).

They are Python's, and all brokers of a process share them. A level that is changed lasts until the
process ends.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from refimpl.controller.config_changes import expect_id
from refimpl.controller.errors import ApiError
from refimpl.messages.controller import APPEND, DELETE, SET, SUBTRACT

ROOT = "root"
LEVELS: Mapping[str, int] = {
    **{"TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO},
    **{"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL},
}
"""Kafka's levels, the lowest first; TRACE is below any of Python's."""


def levels() -> dict[str, str]:
    """The level in force of each logger."""
    known = logging.root.manager.loggerDict
    names = sorted(name for name, one in known.items() if isinstance(one, logging.Logger))
    loggers = {ROOT: logging.root, **{name: logging.getLogger(name) for name in names}}
    return {name: _level(one.getEffectiveLevel()) for name, one in loggers.items()}


def _level(number: int) -> str:
    return next((name for name, level in LEVELS.items() if number <= level), "FATAL")


def alter(broker_id: int, resource: str, changes: Iterable[Any], *, validate_only: bool) -> None:
    """Set levels, or let loggers have those of their parents. Raises ApiError."""
    expect_id("Node", broker_id, resource, f"Unexpected node id. Expected {broker_id},")
    wanted, known = list(changes), levels()
    for one in wanted:
        _check(one, known)
    for one in () if validate_only else wanted:
        logger = logging.root if one.name == ROOT else logging.getLogger(one.name)
        logger.setLevel(LEVELS[one.value] if one.config_operation == SET else logging.NOTSET)


def _check(one: Any, known: Mapping[str, str]) -> None:
    operation = one.config_operation
    if operation in (APPEND, SUBTRACT):
        name = "APPEND" if operation == APPEND else "SUBTRACT"
        message = f"{name} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError("INVALID_REQUEST", message)
    if one.name not in known:
        raise ApiError("INVALID_CONFIG", f"Logger {one.name} does not exist!")
    if operation == SET and one.value not in LEVELS:
        raise ApiError(
            "INVALID_CONFIG",
            f"Cannot set the log level of {one.name} to {one.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    if operation == DELETE and one.name == ROOT:
        message = f"Removing the log level of the {ROOT} logger is not allowed"
        raise ApiError("INVALID_REQUEST", message)
