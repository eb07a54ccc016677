"""Drawings that live in a page: they take their colours from it and keep their ids to themselves.

What draws them knows no style sheets, so it draws in stand-in colours, each of which becomes a
variable of the page here. So one drawing serves light, dark and paper.
"""

import re
from collections.abc import Mapping
from xml.etree import ElementTree as Tree

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
Tree.register_namespace("", _SVG)
Tree.register_namespace("xlink", _LINK)

# Stand-in to variable of the page; nothing else in a drawing has these colours.
INK, QUIET, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SEND, READ, COMMIT, BAD, WARN, FAULT = (f"#1{n}0{n}0{n}" for n in range(6))
SERIES = tuple(f"#2{n}0{n}0{n}" for n in range(8))
# Metadata says what drew it; a style sheet inside a page would be one for the whole page.
_UNWANTED = {f"{{{_SVG}}}{name}" for name in ("metadata", "style")}
_NAMES = {
    INK: "ink",
    QUIET: "quiet",
    GRID: "grid",
    PAPER: "paper",
    SEND: "send",
    READ: "read",
    COMMIT: "commit",
    BAD: "bad",
    WARN: "warn",
    FAULT: "fault",
} | {colour: f"series-{n}" for n, colour in enumerate(SERIES)}
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_FONTS = re.compile(r"\s*font-family:[^;]*;?")
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline(
    text: str,
    prefix: str,
    label: str,
    notes: Mapping[str, tuple[str, str]] | None = None,
    style: str = "",
) -> str:
    """An SVG document as an element of a page.

    `notes` are tool tips and links for the groups of these ids. The label is what a screen reader
    says; the links are for the mouse, because the page offers the same ones as text.
    """
    root = Tree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _UNWANTED:
                parent.remove(child)
    _annotate(root, notes or {})
    _privatise(root, prefix)
    for element in root.iter():
        _shorten(element)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    if style:
        root.set("style", style)
    root.set("role", "img")
    root.set("aria-label", label)
    return Tree.tostring(root, encoding="unicode")


def alone(text: str, label: str, rules: str) -> str:
    """A drawing of a page as a document of its own: with its size, its style and a background."""
    root = Tree.fromstring(text)
    width, height = (f"{float(size):.0f}" for size in root.get("viewBox", "").split()[2:])
    root.attrib.pop("style", None)
    root.attrib |= {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    title, style = Tree.Element(f"{{{_SVG}}}title"), Tree.Element(f"{{{_SVG}}}style")
    title.text, style.text = label, f"\n{rules}\n"
    paper = Tree.Element(f"{{{_SVG}}}rect", {"width": width, "height": height, "fill": "#ffffff"})
    for old in root.findall(f"{{{_SVG}}}defs"):
        root.remove(old)
    for number, element in enumerate((title, style, paper)):
        root.insert(number, element)
    Tree.indent(root, "")
    return Tree.tostring(root, encoding="unicode")


def _shorten(element: Tree.Element) -> None:
    """Leave to the page what is the same for all text, and keep a tenth of a unit of the rest."""
    if (style := element.get("style")) is not None:
        element.set("style", _COLOUR.sub(_variable, _FONTS.sub("", style)).strip("; "))
    for name in ("d", "x", "y", "transform"):
        if (value := element.get(name)) is not None:
            element.set(name, " ".join(_NUMBER.sub(lambda n: f"{float(n[0]):.5g}", value).split()))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if not (element.text or "").strip():
        element.text = None
    element.tail = None if not (element.tail or "").strip() else element.tail


def _variable(found: re.Match[str]) -> str:
    name = _NAMES.get(found[0])
    return f"var(--{name})" if name else found[0]


def _annotate(root: Tree.Element, notes: Mapping[str, tuple[str, str]]) -> None:
    for parent in list(root.iter()):
        for index, child in enumerate(list(parent)):
            note = notes.get(child.get("id", ""))
            if note is None:
                continue
            tip, href = note
            title = Tree.Element(f"{{{_SVG}}}title")
            title.text = tip
            child.insert(0, title)
            if href:
                link = Tree.Element(f"{{{_SVG}}}a", {"href": href, "tabindex": "-1"})
                link.append(child)
                parent[index] = link


def _privatise(root: Tree.Element, prefix: str) -> None:
    """Keep only ids that something refers to, and make them unlike those of any other drawing."""
    wanted: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            wanted |= set(_REFERENCE.findall(value))
        wanted |= {v[1:] for k, v in element.attrib.items() if k.endswith("}href") and v[:1] == "#"}
    for element in root.iter():
        id = element.attrib.pop("id", None)
        if id in wanted:
            element.set("id", f"{prefix}-{id}")
        for name, value in list(element.attrib.items()):
            if name.endswith("}href"):
                del element.attrib[name]
                element.set("href", f"#{prefix}-{value[1:]}" if value[:1] == "#" else value)
            else:
                element.set(name, _REFERENCE.sub(rf"url(#{prefix}-\1)", value))
