"""Variables of settings are resolved as Kafka resolves them, by its own AbstractConfig."""

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from chaos.real.kafka.judge import java
from refimpl.edge.server.properties import PropertiesError, properties_of

PACKAGE = "org.apache.kafka.common.config.provider."
KINDS = {"file": "File", "dir": "Directory", "env": "EnvVar"}
PATHS = ("", "FILE", "FOLDER", "/nowhere/at/all", "FOLDER/../settings")
KEYS = ("a", "ID", "missing", "", "again", "two:parts")
NEWLINE, ESCAPED = "\n", "\\n"
PARAMETERS = (
    "",
    "config.providers.file.param.allowed.paths=FOLDER\n",
    "config.providers.dir.param.allowed.paths=FOLDER,/elsewhere\n",
    "config.providers.file.param.allowed.paths=FILE\n",
    "config.providers.dir.param.allowed.paths=FOLDER,FILE\n",
    "config.providers.dir.param.allowed.paths=FOLDER, FILE\n",
    "config.providers.dir.param.allowed.paths=folder\n",
    "config.providers.env.param.allowlist.pattern=HIGHWATER_.*\n",
)


def test_every_variable_becomes_what_it_becomes_in_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, settings = tmp_path / "folder", tmp_path / "settings"
    folder.mkdir()
    (folder / "a").write_text("of a folder\n")
    settings.write_text("a=of a file\nagain=${env:ID}\n")
    monkeypatch.setenv("ID", "of the environment")
    head = "config.providers=" + ",".join(KINDS) + "\n"
    head += "".join(
        f"config.providers.{name}.class={PACKAGE}{kind}ConfigProvider\n"
        for name, kind in KINDS.items()
    )
    variables = [
        f"${{{name}:{path}:{key}}}" for name, path, key in product((*KINDS, "other"), PATHS, KEYS)
    ]
    variables += [f"${{{name}:{key}}}" for name, key in product((*KINDS, "other"), KEYS)]
    variables += [
        "${env:ID} and ${env:ID}",
        "${env:ID",
        "$env:ID",
        "${}",
        "${:}",
        "x${dir:FOLDER:a}",
    ]
    files: list[Path] = []
    for number, (parameter, variable) in enumerate(product(PARAMETERS, variables)):
        text = f"{head}{parameter}value={variable}\n"
        files.append(tmp_path / f"{number}.properties")
        files[-1].write_text(text.replace("FOLDER", str(folder)).replace("FILE", str(settings)))
    asked = subprocess.run(
        [*java("Resolved"), *files], capture_output=True, text=True, check=True, env=os.environ
    )
    told = [line for line in asked.stdout.splitlines(keepends=True) if line.startswith("=")]
    theirs = dict(one.split("\n", 1) for one in "".join(told).split("=file ")[1:])
    assert len(theirs) == len(files)
    differences: list[str] = []
    for file in files:
        try:
            found = properties_of(file.read_text(), str(file))
            ours = "".join(
                f"={name}={found[name].replace(NEWLINE, ESCAPED)}\n" for name in sorted(found)
            )
        except PropertiesError:
            ours = "=refused\n"
        if ours != theirs[str(file)]:
            differences.append(f"{file.read_text()}\nours {ours}\ntheirs {theirs[str(file)]}")
    assert not differences, f"{len(differences)} of {len(files)}: {differences[:3]}"
