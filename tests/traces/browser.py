"""A real browser for tests: Chromium's own protocol over a pipe, so that nothing is installed.

Only what is asked of a page here: open it at a width, evaluate an expression, look at it. What
the page logs, what it loads and what fails is kept.
"""

import json
import os
import select
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE_S = 60


def executable() -> str | None:
    """The browser on PATH, or the one that HIGHWATER_BROWSER names."""
    named = os.environ.get("HIGHWATER_BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


@define
class Tab:
    """One tab, and all that happened in it."""

    _say_to: int
    _hear_from: int
    events: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    _session: str | None = None
    _asked: int = 0
    _rest: bytes = b""

    def attach(self) -> None:
        """Open the tab and listen to everything that it has to say."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, page: Path, width: int, *, dark: bool = False, paper: bool = False) -> None:
        """Load a page anew at this width, and wait until it is there."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call(
            "Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[scheme]
        )
        self.call("Page.navigate", url=page.resolve().as_uri())
        self._await("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, exceptions, and loads that failed."""
        said = [event for event in self.events if event["method"] in _COMPLAINTS]
        return [
            json.dumps(event["params"]) for event in said if _COMPLAINTS[event["method"]](event)
        ]

    def loaded(self) -> list[str]:
        """The address of everything that the page asked for, itself included."""
        asked = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in asked]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol and its answer."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._say_to, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._asked:
                assert "error" not in said, (method, said["error"])
                return said["result"]

    def _await(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self._next()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._hear_from], [], [], _PATIENCE_S)
            assert ready, "the browser does not answer"
            chunk = os.read(self._hear_from, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        first, _, self._rest = self._rest.partition(b"\0")
        said = json.loads(first)
        if "method" in said:
            self.events.append(said)
        return said


def _is_bad(event: dict[str, Any]) -> bool:
    entry = event["params"].get("entry", event["params"])
    return entry.get("level", entry.get("type")) in ("error", "warning", "assert")


def _always(_: dict[str, Any]) -> bool:
    return True


_COMPLAINTS = {
    "Log.entryAdded": _is_bad,
    "Network.loadingFailed": _always,
    "Runtime.consoleAPICalled": _is_bad,
    "Runtime.exceptionThrown": _always,
}


@contextmanager
def browser(program: str, profile: Path) -> Generator[Tab]:
    """A headless browser with one tab, gone at the end."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    arguments = [
        program,
        "--headless=new",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        *("--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage"),
        # Chromium refuses to run as root inside its sandbox, and containers are root.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    silence = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4)]
    process = os.posix_spawn(program, arguments, os.environ, file_actions=[*silence, *pipes])
    os.close(theirs_in)
    os.close(theirs_out)
    tab = Tab(ours_out, ours_in)
    try:
        tab.attach()
        yield tab
    finally:
        os.write(ours_out, b'{"id": 0, "method": "Browser.close"}\0')
        _wait(process)
        os.close(ours_out)
        os.close(ours_in)


def _wait(process: int) -> None:
    """Wait for the browser to end, and end it if it does not."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        select.select([], [], [], 0.05)
    os.kill(process, 9)
    os.waitpid(process, 0)
