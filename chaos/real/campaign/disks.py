"""The log directories of a node that is down: their size, copies, and a copy put back."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from attrs import frozen


@frozen
class Disk:
    """The log directories below one folder, and the folder of their copies."""

    data: Path
    copies: Path

    def bytes_of_logs(self) -> int:
        """The bytes in segments."""
        return sum(file.stat().st_size for file in self.data.rglob("*.log"))

    def empty(self) -> int:
        """Remove everything; how many bytes of logs are lost."""
        lost = self.bytes_of_logs()
        shutil.rmtree(self.data)
        return lost

    def copy(self) -> Path:
        """Copy everything; the place of the copy."""
        self.copies.mkdir(parents=True, exist_ok=True)
        place = Path(mkdtemp(dir=self.copies))
        return shutil.copytree(self.data, place / self.data.name, symlinks=True)

    def put_back(self, copy: Path) -> int:
        """Replace everything by a copy, which goes; how many bytes of logs are lost."""
        before = self.empty()
        copy.rename(self.data)
        return max(0, before - self.bytes_of_logs())
