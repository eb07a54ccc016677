"""Which packages of this distribution stand where, and which extra brings what they need."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("refimpl", "properties", "chaos", "traces")
"""Installed beside `highwater`, under names that others may have, too."""

HERE = Path(__file__).resolve().parents[1]


@cache
def check_places() -> None:
    """Raises ImportError if somebody else's module is found under the name of one of ours."""
    for name in PACKAGES:
        found = _place(name)
        if found is not None and found != HERE:
            raise ImportError(
                f"`{name}` is imported from {found}, where it is not Highwater's ({HERE}): rename "
                "that file or folder, or take its folder off the front of sys.path"
            )


def _place(name: str) -> Path | None:
    """The folder in which a top-level name is found; None if nowhere."""
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else loaded.__spec__
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin).resolve()
    return origin.parent.parent if spec.submodule_search_locations else origin.parent


@contextmanager
def extra_named(name: str, module: str) -> Generator[None]:
    """Name the extra that is missing, where the package is not one of ours."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if not package or package in PACKAGES:
            raise
        from refimpl.extras import extra_of, install

        raise ModuleNotFoundError(
            f"highwater.{name} needs the package `{package}`, which comes with an extra: "
            f"{install(extra_of(module, package))}",
            name=missing.name,
        ) from missing
