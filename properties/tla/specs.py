"""The specs' locations: one folder per module, and the files on which one configuration depends."""

import os
import re
from pathlib import Path

from attrs import frozen

from properties.tla.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """The folder for everything that can be generated again."""
    if (named := os.environ.get("HIGHWATER_CACHE")) or (CHECKOUT / "pyproject.toml").is_file():
        return Path(named or CHECKOUT / "build")
    # Installed: what is generated does not belong among the packages.
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


@frozen
class SpecTree:
    """A folder of specs: `<Module>/<Module>.tla`, `<Module>/cfg/*.cfg`, and `lib/` for helpers."""

    root: Path = CHECKOUT / "spec" / "tla"

    def modules(self) -> list[str]:
        """The modules that have models of their own."""
        if not self.root.is_dir():
            raise InputError(
                f"there is no folder of specs at {self.root}; the TLA+ specs come with the "
                "repository: run from a checkout, or name a folder with --specs"
            )
        return sorted(f.name for f in self.root.iterdir() if (f / f"{f.name}.tla").is_file())

    def folder(self, module: str) -> Path:
        """The folder of a module; an unknown module is the user's mistake."""
        folder = self.root / module
        if not (folder / f"{module}.tla").is_file():
            known = ", ".join(self.modules()) or "none"
            raise InputError(f"no module {module!r} in {self.root} (there are: {known})")
        return folder

    def library(self) -> list[Path]:
        """The folders in which modules find each other, `lib/` first."""
        lib = self.root / "lib"
        return [*([lib] if lib.is_dir() else []), *(self.root / name for name in self.modules())]

    def models(self, module: str) -> list[Path]:
        """The configurations of a module."""
        return sorted((self.folder(module) / "cfg").glob("*.cfg"))

    def model(self, module: str, cfg: str) -> Path:
        """One configuration, by its name without `.cfg`."""
        path = self.folder(module) / "cfg" / f"{cfg}.cfg"
        if not path.is_file():
            known = ", ".join(found.stem for found in self.models(module)) or "none"
            raise InputError(f"{module} has no configuration {cfg!r} (there are: {known})")
        return path

    def closure(self, module: str) -> list[Path]:
        """The files that a module uses, itself first; a cached result depends on them.

        A module uses every other whose name it mentions outside comments.
        """
        known = {file.stem: file for folder in self.library() for file in folder.glob("*.tla")}
        found = {module: self.folder(module) / f"{module}.tla"}
        waiting = [module]
        while waiting:
            text = _COMMENT.sub("", found[waiting.pop()].read_text(encoding="utf-8"))
            for name in sorted(set(re.findall(r"\w+", text)) & known.keys() - found.keys()):
                found[name] = known[name]
                waiting.append(name)
        return list(found.values())


# ---------------------------------------------------------------------------- configurations

_SECTIONS = {
    "CONSTANT": "CONSTANTS",
    "INVARIANT": "INVARIANTS",
    "PROPERTY": "PROPERTIES",
    "CONSTRAINT": "CONSTRAINTS",
    "ACTION_CONSTRAINT": "ACTION_CONSTRAINTS",
}
_SINGLE = {"SPECIFICATION", "INIT", "NEXT", "SYMMETRY", "VIEW", "CHECK_DEADLOCK"}
_KEYWORDS = {*_SECTIONS, *_SECTIONS.values(), *_SINGLE}
_COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)


@frozen
class ModelConfig:
    """A cfg's content, section by section, without comments and singular keywords."""

    sections: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "ModelConfig":
        """Read a cfg. TLC is the judge of its syntax: this only finds where sections begin."""
        text = _COMMENT.sub(" ", path.read_text(encoding="utf-8"))
        sections: dict[str, str] = {}
        section = ""
        for word in re.findall(r'"[^"\n]*"|\S+', text):
            if word in _KEYWORDS:
                section = _SECTIONS.get(word, word)
            elif section:
                sections[section] = f"{sections.get(section, '')} {word}".strip()
        return cls(sections)

    def names(self, section: str) -> list[str]:
        return self.sections.get(section, "").split()

    @property
    def invariants(self) -> list[str]:
        return self.names("INVARIANTS")

    @property
    def properties(self) -> list[str]:
        return self.names("PROPERTIES")

    def constants(self) -> list[str]:
        """The constants that get a value here."""
        return re.findall(r"(\w+)\s*=", self.sections.get("CONSTANTS", ""))

    def assigned(self) -> dict[str, str]:
        """The constants and the text of their values."""
        pairs = re.split(r"(\w+)\s*=", self.sections.get("CONSTANTS", ""))[1:]
        return {name: text.strip() for name, text in zip(pairs[::2], pairs[1::2], strict=True)}

    def replaced(self) -> list[str]:
        """The names, constants or not, that are replaced by another definition here (`<-`)."""
        return re.findall(r"(\w+)\s*<-", self.sections.get("CONSTANTS", ""))

    def without(self, *gone: str) -> "ModelConfig":
        """The same without these sections."""
        return ModelConfig({key: body for key, body in self.sections.items() if key not in gone})

    def behaviour_only(self) -> str:
        """The same model with nothing to check, so that TLC explores all of it."""
        kept = self.without("INVARIANTS", "PROPERTIES").sections
        return "".join(f"{keyword}\n  {body}\n" for keyword, body in kept.items())
