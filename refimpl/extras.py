"""Which extra brings a package that is missing, and what is said where one is not installed."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import click

ROOMS = ("refimpl", "properties", "chaos", "traces")
BAD_INPUT = 2

#: For what a verb or a public name stands on, by the beginning of its module
OF_MODULES: Mapping[str, str] = {
    "refimpl.edge.testing.kafka": "test",
    "chaos.real.proxy": "test",
    "traces.testing": "test",
    "traces.ingest.source": "spark",
    "traces.engines.precheck": "spark",
    "traces.engines.spark": "spark",
    "traces": "check",
    "properties": "verify",
    "chaos": "broker",
    "refimpl.explain": "check",
    "refimpl": "broker",
}
#: For packages that one way of a verb needs, and others do not
OF_PACKAGES: Mapping[str, str] = {
    **dict.fromkeys(("pandas", "pyspark"), "spark"),
    "matplotlib": "html",
}


def extra_of(module: str, package: str = "") -> str:
    """The extra that brings this package to what a module does."""
    by_module = (extra for begins, extra in OF_MODULES.items() if module.startswith(begins))
    return OF_PACKAGES.get(package) or next(by_module, "test")


def install(extra: str) -> str:
    """The command that installs it."""
    return f"pip install 'highwatermark[{extra}]'"


class MissingExtraError(click.ClickException):
    """A verb is here, but not a package that it stands on."""

    exit_code = BAD_INPUT

    def __init__(self, offer: EntryPoint, package: str) -> None:
        extra = extra_of(offer.module, package)
        super().__init__(
            f"`highwater {offer.name}` needs the package `{package}`, which is not installed. "
            f"It comes with the extra `{extra}`: {install(extra)}"
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
