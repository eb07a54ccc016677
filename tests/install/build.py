"""Build sdist and wheel, offline, and look into both: `make dist`."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
PACKAGES = ("highwater", "refimpl", "properties", "chaos", "traces")
#: What nobody may miss who has an sdist alone
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", "docs/index.md")
BUILD = "import sys, uv_build as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def build(kind: str, root: Path, into: Path) -> Path:
    """One of the two, by the hook of the build backend."""
    into.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", str(into.resolve())],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return into / ran.stdout.splitlines()[-1]


def from_sdist(sdist: Path, scratch: Path) -> Path:
    """The wheel that is built of an sdist and nothing else."""
    with tarfile.open(sdist) as packed:
        packed.extractall(scratch, filter="data")
    return build("wheel", scratch / sdist.name.removesuffix(".tar.gz"), scratch / "wheel")


def names(built: Path) -> set[str]:
    """The files of a wheel, or of an sdist without its folder."""
    if built.suffix == ".whl":
        with zipfile.ZipFile(built) as packed:
            return set(packed.namelist())
    with tarfile.open(built) as packed:
        return {one.partition("/")[2] for one in packed.getnames()}


def metadata(wheel: Path) -> Message:
    """The metadata that an index will show."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA"))
        return Parser().parsestr(packed.read(name).decode())


def problems(sdist: Path, wheel: Path) -> list[str]:
    """The reasons why these two must not be published."""
    found: list[str] = []
    there, about = names(wheel), metadata(wheel)
    lacks = [f"{one}/py.typed" for one in PACKAGES if f"{one}/py.typed" not in there]
    lacks += [one for one in IN_SDIST if one not in names(sdist)]
    found += [f"missing: {one}" for one in lacks]
    strangers = {one.partition("/")[0] for one in there if ".dist-info/" not in one}
    found += [f"in the wheel: {one}" for one in sorted(strangers - {*PACKAGES, "spec"})]
    if any(one.startswith("Private") for one in about.get_all("Classifier", [])):
        found.append("a Private classifier: no index would take it")
    if f"\n## {about['Version']}\n" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        found.append(f"CHANGELOG.md has no section {about['Version']}")
    return found


@click.command()
@click.argument("into", type=click.Path(path_type=Path))
def main(into: Path) -> None:
    """Build both into a folder; exit code 1 for what cannot be published."""
    sdist, wheel = build("sdist", ROOT, into), build("wheel", ROOT, into)
    for one in (sdist, wheel):
        click.echo(f"{one}: {one.stat().st_size / 1e6:.2f} MB, {len(names(one))} files")
    for problem in (found := problems(sdist, wheel)):
        click.echo(problem, err=True)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
