"""Making very many small objects at once."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the garbage collector still while hundreds of thousands of objects are made to last.

    None of them is garbage, and looking again and again costs three times what making them does.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
