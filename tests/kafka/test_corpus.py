"""Kafka is started on settings that lie around: alone, and with what version 4 wants besides."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.real.kafka.judge import free_port, java
from tests.refimpl.edge.test_corpus import ENTRIES, VERDICTS

SECONDS = 500
PROTOCOLS = ",".join(f"{one}:{one}" for one in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
"""The default of listener.security.protocol.map"""
_HOST = re.compile(r"://(\[[^\]]*\]|[^:,]*):")
_NAMED = re.compile(r"://(\[[^\]]*\]|[^:,]+):")
_PORT = re.compile(r":(\d{4,5}|PORT2?)\b")


def placed(text: str, folder: Path) -> str:
    """The settings at free ports of the loopback address, with their logs in a folder."""
    ports: dict[str, int] = {}

    def port(found: re.Match[str]) -> str:
        return f":{ports.setdefault(found[1], free_port())}"

    if not re.search(r"^log\.dirs?=", text, re.MULTILINE):
        text += "log.dirs=DATA\n"
    lines = text.replace("DATA", str(folder / "data")).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("listeners="):
            lines[number] = _PORT.sub(port, _HOST.sub("://127.0.0.1:", line))
        elif line.startswith("advertised.listeners="):
            lines[number] = _PORT.sub(port, _NAMED.sub("://127.0.0.1:", line))
        elif line.startswith("controller.quorum."):
            lines[number] = _PORT.sub(port, line)
    return "\n".join(lines) + "\n"


def completed(text: str) -> str:
    """The settings with a controller in the same process, where they know only ZooKeeper."""
    lines = text.splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#!")
    if "process.roles" in values:
        if not any(name.startswith("controller.quorum.") for name in values):
            lines.append("controller.quorum.voters=99@localhost:9093")
        return "\n".join(lines) + "\n"
    number = values.get("node.id", values.get("broker.id", "1"))
    lines.append("process.roles=broker,controller")
    if "node.id" not in values:
        lines.append(f"node.id={number}")
    lines.append(f"controller.quorum.voters={number}@localhost:9093")
    lines.append("controller.listener.names=CONTROLLER")
    listeners = values.get("listeners", "PLAINTEXT://:9092")
    lines = [line for line in lines if not line.startswith("listeners=")]
    lines.append(f"listeners={listeners},CONTROLLER://:9093")
    lines = [line for line in lines if not line.startswith("listener.security.protocol.map=")]
    security = values.get("listener.security.protocol.map", PROTOCOLS)
    lines.append(f"listener.security.protocol.map={security},CONTROLLER:PLAINTEXT")
    return "\n".join(lines) + "\n"


def verdicts(texts: Sequence[str], folder: Path) -> list[str | None]:
    """Kafka's verdicts, in a process of its own."""
    files: list[Path] = []
    for number, text in enumerate(texts):
        own = folder / f"{number:02d}"
        own.mkdir(parents=True)
        files.append(own / "server.properties")
        files[-1].write_text(placed(text, own))
    done = subprocess.run(
        java("Accepts", *map(str, files)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    short = [why and why.replace(str(folder), "FOLDER").splitlines()[0] for why in found]
    return [why and re.sub(r":\d{5}\b|\b\d{5}\b", ":PORT", why) for why in short]


@pytest.mark.usefixtures("judge")
def test_kafka_starts_on_what_it_started_on_when_it_was_recorded(tmp_path: Path) -> None:
    texts = [text for _, _, text in ENTRIES.values()]
    alone = verdicts(texts, tmp_path / "alone")
    whole = verdicts([completed(text) for text in texts], tmp_path / "completed")
    found = {
        name: {"alone": alone[number], "completed": whole[number]}
        for number, name in enumerate(ENTRIES)
    }
    if os.environ.get("HIGHWATER_RECORD"):
        VERDICTS.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(VERDICTS.read_text())
