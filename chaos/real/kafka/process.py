"""A server's process, which a run freezes, thaws and kills."""

import signal
import subprocess

from attrs import define, field


@define
class ServerProcess:
    """A process that is started again and again; None before the first time."""

    process: "subprocess.Popen[bytes] | None" = field(default=None, kw_only=True)

    @property
    def running(self) -> bool:
        """True between a start and an end."""
        return self.process is not None and self.process.poll() is None

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does; the others do not know yet."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a power cut would, but for the disk."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to it alone."""
        assert self.process is not None
        self.process.send_signal(number)
