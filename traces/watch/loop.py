"""`highwater check --watch`: read, judge, report, and wait for more."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import define
from rich.console import Console

from traces.model.problems import BadInput
from traces.watch.screen import Screen, WatchLog, stamped, write_json
from traces.watch.watching import BatchOutcome, Watch

#: Between two looks, in seconds; a batch that took longer is followed by a shorter pause.
EVERY, AT_LEAST = 0.5, 0.1


class Teller(Protocol):
    """An output for the progress of a watch."""

    def start(self, watch: Watch) -> None:
        """Before the first look."""
        ...

    def tell(self, watch: Watch, step: BatchOutcome) -> None:
        """After each."""
        ...

    def stop(self) -> None:
        """After the last."""
        ...


@define
class Loop:
    """Watches one run until it has ended, has been idle for long, or is interrupted."""

    watch: Watch
    console: Console
    json_file: Path | None = None
    until: float | None = None
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def run(self) -> bool:
        """Watch the run; True if it can now be judged as a whole, False if interrupted before."""
        teller: Teller = (Screen if self.console.is_terminal else WatchLog)(self.console)
        teller.start(self.watch)
        try:
            over = self._until_over(teller)
        except KeyboardInterrupt:
            over = False
        except (BadInput, OSError) as problem:
            self.console.print(stamped("STOPPED", str(problem)), soft_wrap=True)
            return True  # whoever reads the whole says what is wrong with it
        finally:
            teller.stop()
        if not over:
            self._interrupted()
        return over

    def _until_over(self, teller: Teller) -> bool:
        """Watch until the run has ended or is idle; True if the trace can be judged as a whole."""
        quiet_since = self.now()
        while True:
            began = self.now()
            step = self.watch.step()
            teller.tell(self.watch, step)
            if not step.batch.empty and self.json_file is not None:
                write_json(self.watch, self.json_file)
            if self.watch.folder.ended and step.batch.empty:
                return True
            if not step.batch.empty:
                quiet_since = self.now()
            elif self.until is not None and self.now() - quiet_since >= self.until:
                return not self.watch.folder.recording
            if not step.batch.more:
                self.pause(max(AT_LEAST, EVERY - (self.now() - began)))

    def _interrupted(self) -> None:
        """It has not ended: what was found stays, and nothing else is said."""
        if self.json_file is not None:
            write_json(self.watch, self.json_file)
        found = "violated" if self.watch.violated else "nothing is violated so far"
        if problem := self.watch.folder.meta_problem:
            self.console.print(stamped("BAD", problem), soft_wrap=True)
            found += ", and what depends on meta.json was not looked at"
        running = ", ".join(self.watch.folder.running) or "nobody"
        self.console.print(stamped("stopped", f"{found}; still open: {running}"), soft_wrap=True)
