"""The extras that bring what a verb stands on, and what is said where one is not installed."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import click

ROOMS = ("refimpl", "properties", "chaos", "traces")
BAD_INPUT = 2


def extra_of(offer: EntryPoint) -> str:
    """The extra that brings what a verb stands on: it is named after the verb's room."""
    return offer.module.removeprefix("refimpl.").partition(".")[0]


class MissingExtraError(click.ClickException):
    """A verb's room is here, but not a package that it stands on."""

    exit_code = BAD_INPUT

    def __init__(self, offer: EntryPoint, package: str) -> None:
        extra = extra_of(offer)
        super().__init__(
            f"`highwater {offer.name}` needs the package `{package}`, which is not installed. "
            f"It comes with the extra `{extra}`; in a checkout: pip install '.[{extra}]'"
        )


@contextmanager
def missing_extra_named(offer: EntryPoint) -> Generator[None]:
    """A missing package is the user's to install; a missing module of ours is our own bug."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if not package or package in ROOMS:
            raise
        raise MissingExtraError(offer, package) from missing
