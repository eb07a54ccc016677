"""An event loop in a thread of its own, for clients that applications call from any thread."""

import asyncio
from collections.abc import Coroutine
from threading import Thread, get_ident
from typing import Any


class LoopThread:
    """The loop of one client, which runs from the beginning until `end`."""

    def __init__(self, name: str) -> None:
        """Start; `name` is the thread's."""
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True in the loop's own thread."""
        return self._thread.ident == get_ident()

    def end(self, last: Coroutine[Any, Any, None]) -> None:
        """Run this, then end the loop and its thread."""
        asyncio.run_coroutine_threadsafe(last, self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
