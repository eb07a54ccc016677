"""A module's syntax tree, from SANY's XML.

`read` exports a module (and the modules that it extends) by `tla2sany.xml.XMLExporter` in the
pinned jar and turns it into `OperatorDefinition`s of `Expression`s. The XML is cached under the
hash of everything on which it depends.
"""

import re
import shutil
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define, frozen

from properties.tla import tools
from properties.tla.errors import InputError
from properties.tla.names import write_aside
from properties.tla.processes import run
from properties.tla.specs import SpecTree, cache_folder

LIMIT_S = 120.0
# Operators of TLA+'s standard modules: the evaluator knows them, so their bodies are not read.
STANDARD = frozenset(
    {"+", "-", "*", "^", "%", "<", ">", "..", "\\leq", "\\geq", "\\o", "\\div", "Nat", "Int"}
    | {"Append", "Cardinality", "Head", "IsFiniteSet", "Len", "SelectSeq", "Seq", "SubSeq", "Tail"}
)


@frozen(eq=False)
class Expression:
    """An expression.

    `op` is the name of a built-in or standard operator, or one of `number`, `string`, `param`,
    `variable`, `constant`, `call`, `operator` (one that is an argument), `let`, `@`; `ref` is what
    it names or holds. `bounds` are the bound symbols of quantifiers and comprehensions, with the
    sets that they range over.
    """

    op: str
    args: tuple["Expression", ...] = ()
    ref: Any = None
    bounds: tuple[tuple[tuple[str, ...], "Expression"], ...] = ()


@define(eq=False)
class OperatorDefinition:
    """An operator, its formal parameters and its body."""

    name: str
    params: tuple[str, ...]
    module: str
    source: ET.Element | None
    _body: Expression | None = None

    def body(self, tree: "SanyTree") -> Expression:
        """The body, read when it is needed first."""
        if self._body is None:
            if self.source is None:
                raise InputError(f"{self.name} has no body that can be evaluated")
            self._body = tree.node(self.source)
        return self._body


class SanyTree:
    """All definitions that a module uses."""

    def __init__(self, root: ET.Element, modules: Sequence[str]) -> None:
        self._entries: dict[str, ET.Element] = {}
        context = root.find("context")
        for entry in () if context is None else context:
            kind = next(part for part in entry if part.tag != "UID")
            self._entries[_text(entry, "UID")] = kind
        self._by_uid: dict[str, OperatorDefinition] = {}
        self._primed: dict[Expression, bool] = {}
        self._depends: dict[Expression, tuple[frozenset[str], frozenset[str]]] = {}
        self.definitions: dict[str, OperatorDefinition] = {}
        for uid, kind in self._entries.items():
            if kind.tag == "UserDefinedOpKind":
                self._by_uid[uid] = found = self._definition(kind)
                # Instances bring their own `Init` and `Next`: only these modules' names count.
                if found.module in modules:
                    self.definitions[found.name] = found
        self.variables = list(self._declared("3", modules))
        self.constants = list(self._declared("2", modules))

    def _definition(self, kind: ET.Element) -> OperatorDefinition:
        params = kind.find("params")
        names = tuple(_text(one, ".//UID") for one in (() if params is None else params))
        name, body = _text(kind, "uniquename"), kind.find("body")
        known = name in STANDARD or body is None
        module = kind.findtext("location/filename") or ""
        return OperatorDefinition(name, names, module, None if known or body is None else body[0])

    def _declared(self, kind: str, modules: Sequence[str]) -> Iterator[str]:
        for entry in self._entries.values():
            here = entry.findtext("location/filename") in modules
            if here and entry.tag == "OpDeclNode" and entry.findtext("kind") == kind:
                yield _text(entry, "uniquename")

    def definition(self, name: str) -> OperatorDefinition:
        """A definition by name."""
        if name not in self.definitions:
            raise InputError(f"the module defines no {name!r}")
        return self.definitions[name]

    def node(self, xml: ET.Element) -> Expression:
        """One expression."""
        read = _READERS.get(xml.tag)
        if read is None:
            raise InputError(f"no expression can be read from SANY's {xml.tag}")
        return read(self, xml)

    def operator(self, xml: ET.Element) -> Expression:
        operator, operands = xml.find("operator"), xml.find("operands")
        assert operator is not None
        uid = _text(operator[0], "UID")
        kind = self._entries[uid]
        args = tuple(self.node(one) for one in (() if operands is None else operands))
        name = _text(kind, "uniquename")
        if kind.tag == "BuiltInKind":
            return Expression(name, args, None, tuple(self._bounds(xml)))
        if kind.tag == "OpDeclNode":
            return Expression("variable" if kind.findtext("kind") == "3" else "constant", (), name)
        if kind.tag == "FormalParamNode":
            return Expression("param", (), uid)
        if name in STANDARD:
            return Expression(name, args)
        return Expression("call", args, self._by_uid[uid])

    def _bounds(self, xml: ET.Element) -> Iterator[tuple[tuple[str, ...], Expression]]:
        symbols = xml.find("boundSymbols")
        for bound in () if symbols is None else symbols:
            if bound.tag == "unbound":
                raise InputError("a quantifier without a set to range over cannot be evaluated")
            names = tuple(_text(one, "UID") for one in bound if one.tag == "FormalParamNodeRef")
            yield names, self.node(bound[-1])

    def let(self, xml: ET.Element) -> Expression:
        body = xml.find("body")
        assert body is not None
        return Expression("let", (self.node(body[0]),))

    def speaks_of_next(self, node: Expression) -> bool:
        """True if an expression contains primed variables."""
        known = self._primed.get(node)
        if known is None:
            known = node.op in ("'", "UNCHANGED") or any(map(self.speaks_of_next, node.args))
            if not known and node.op in ("call", "operator"):
                known = self.speaks_of_next(node.ref.body(self))
            self._primed[node] = known
        return known

    def variables_in(self, node: Expression) -> frozenset[str]:
        """The state variables that the value of an expression may depend on."""
        return self.depends(node)[0]

    def depends(self, node: Expression) -> tuple[frozenset[str], frozenset[str]]:
        """The state variables and bound symbols on which an expression's value may depend.

        EXCEPT's old value is the symbol `@`.
        """
        known = self._depends.get(node)
        if known is None:
            known = self._depends[node] = self._find_depends(node)
        return known

    def _find_depends(self, node: Expression) -> tuple[frozenset[str], frozenset[str]]:
        if node.op == "variable":
            return frozenset({node.ref}), frozenset()
        if node.op == "param":
            return frozenset(), frozenset({node.ref})
        if node.op == "@":
            return frozenset(), frozenset({node.op})
        if node.op == "$Except":
            reads, symbols = self.depends(node.args[0])
            inside, free = self._join(node.args[1:])
            return reads | inside, symbols | free.difference({"@"})
        reads, symbols = self._join(node.args)
        if node.op in ("call", "operator"):
            called: OperatorDefinition = node.ref
            inside, free = self.depends(called.body(self))
            return reads | inside, symbols | free.difference(called.params)
        ranges, outside = self._join(over for _, over in node.bounds)
        bound = {name for names, _ in node.bounds for name in names}
        return reads | ranges, symbols.difference(bound) | outside

    def _join(self, nodes: Iterable[Expression]) -> tuple[frozenset[str], frozenset[str]]:
        reads, symbols = frozenset[str](), frozenset[str]()
        for one in nodes:
            read, free = self.depends(one)
            reads, symbols = reads | read, symbols | free
        return reads, symbols

    def numeral(self, xml: ET.Element) -> Expression:
        return Expression("number", (), int(_text(xml, "IntValue")))

    def string(self, xml: ET.Element) -> Expression:
        # CASE's OTHER is a string node without a value.
        if xml.text == "$Other":
            return Expression("$Other")
        return Expression("string", (), _text(xml, "StringValue"))

    def argument(self, xml: ET.Element) -> Expression:
        """An operator as an argument, as SelectSeq takes one."""
        return Expression(
            "operator", (), self._by_uid[_text(xml, "argument/UserDefinedOpKindRef/UID")]
        )

    def old_value(self, xml: ET.Element) -> Expression:
        return Expression("@")


_READERS = {
    "OpApplNode": SanyTree.operator,
    "LetInNode": SanyTree.let,
    "NumeralNode": SanyTree.numeral,
    "StringNode": SanyTree.string,
    "AtNode": SanyTree.old_value,
    "OpArgNode": SanyTree.argument,
}


def _text(xml: ET.Element, path: str) -> str:
    found = xml.findtext(path)
    if found is None:
        raise InputError(f"SANY's XML has no {path} in {xml.tag}")
    return found


def read(module: str, folder: str, tree: SpecTree | None = None) -> SanyTree:
    """The definitions of `module.tla` in a module's folder, and of the modules that it extends.

    Raises `InputError` with SANY's own words if the module does not parse.
    """
    specs = tree or SpecTree()
    return SanyTree(exported(module, folder, specs), _extended(_stands_on(module, folder, specs)))


def _stands_on(module: str, folder: str, specs: SpecTree) -> list[Path]:
    file = specs.folder(folder) / f"{module}.tla"
    if not file.is_file():
        raise InputError(f"there is no {file}")
    beside = [one for one in sorted(file.parent.glob("*.tla")) if one != file]
    return [file, *beside, *specs.closure(folder)]


def exported(module: str, folder: str, specs: SpecTree) -> ET.Element:
    """SANY's XML of a module, with the place of each node in its file."""
    stands_on = _stands_on(module, folder, specs)
    file = stands_on[0]
    key = tools.digest(stands_on, "syntax", module, tools.find().key())
    cached = cache_folder() / "syntax" / f"{module}-{key}.xml"
    if not cached.is_file():
        write_aside(cached, lambda part: _export(file, specs, part))
    return ET.parse(cached).getroot()


def _extended(files: Sequence[Path]) -> list[str]:
    """The modules that the first one extends, itself first, without instantiated ones."""
    known = {file.stem: file for file in files}
    found = [files[0].stem]
    for name in found:
        text = known[name].read_text(encoding="utf-8")
        extends = re.search(r"^EXTENDS\s+([\w\s,]+?)$", text, re.MULTILINE)
        names = re.findall(r"\w+", extends[1]) if extends else []
        found += [one for one in names if one in known and one not in found]
    return found


def _export(file: Path, specs: SpecTree, out: Path) -> None:
    # SANY unpacks the standard modules there; runs beside this one would delete them from a
    # folder that they share.
    scratch = Path(tempfile.mkdtemp(prefix="highwater-sany-"))
    command = [*tools.find().command, f"-Djava.io.tmpdir={scratch}"]
    command += ["tla2sany.xml.XMLExporter", "-o"]  # offline: the schema is not looked up
    for folder in specs.library():
        command += ["-I", str(folder)]
    try:
        shutil.copy(file, scratch)
        told = run([*command, file.name], scratch, LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    begins = told.output.find("<?xml")
    # The XML is written half made when there are errors, and the exit status says nothing.
    if begins < 0 or re.search(r"[Ee]rrors: [1-9]", told.output[:begins] + told.errors):
        said = (told.output[: max(begins, 0)] + told.errors).strip()
        raise InputError(f"{file}: SANY does not parse it:\n{said[-3000:]}")
    out.write_text(told.output[begins:], encoding="utf-8")
