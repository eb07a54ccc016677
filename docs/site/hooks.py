"""Puts what our pages link to outside of docs/ into the site: pages, sources, folders.

Docs link to files of the repository by relative paths, which work in a checkout. In the site a
source file is a page that shows it, so that every link leads somewhere without a network.
"""

import os
import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "repository"
#: What the theme would fetch for search without a server, and ours, which is the same
SHIM, OURS = re.compile(r"https://[^/\"']+/iframe-worker/shim"), "site/iframe-worker.js"
LINK = re.compile(r"(?<=]\()([^)#\s]+)(?=[)#])")
LOCAL = re.compile(r'(?:href|src)="(?!data:|#|mailto:|javascript:)([^":]+)"')
FETCHED = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="((?:https?:)?//[^"]+)"')
LANGUAGES = {".py": "python", ".java": "java", ".scala": "scala", ".json": "json", ".toml": "toml"}
#: Pages of the site and the files that they are, where they are not where they seem to be
MOVED = {"index.md": "docs/site/home.md", "contents.md": "docs/index.md"}


def file_of(uri: str) -> str:
    """The path in the repository of a page of the site."""
    if uri in MOVED:
        return MOVED[uri]
    if uri.startswith(f"{REPOSITORY}/"):
        path = uri.removeprefix(f"{REPOSITORY}/")
        for shown in (path, path.removesuffix(".md"), path.removesuffix("/index.md")):
            if (ROOT / shown).exists():
                return shown
    return f"docs/{uri}"


def uri_of(path: str) -> str:
    """The page of the site that shows a file or a folder of the repository."""
    for uri, moved in MOVED.items():
        if path == moved:
            return uri
    if (ROOT / path / "README.md").exists():
        return uri_of(f"{path}/README.md")
    if (ROOT / path).is_dir():
        return f"{REPOSITORY}/{path}/index.md"
    if path.startswith("docs/") and Path(path).suffix not in (".py", ".toml"):
        return path.removeprefix("docs/")
    shown = path if Path(path).suffix in (".md", ".svg", ".png") else f"{path}.md"
    return f"{REPOSITORY}/{shown}"


def target(link: str, page: str) -> str | None:
    """The path in the repository that a link on a page leads to; None if it leads elsewhere."""
    if ":" in link:
        return None
    path = os.path.normpath((PurePosixPath(page).parent / link).as_posix())
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def on_files(files: Files, config: Any) -> Files:
    """Add home and contents, and whatever is linked from there on."""
    for old in ("index.md", "site/home.md"):
        if (file := files.get_file_from_path(old)) is not None:
            files.remove(file)
    for uri in MOVED:
        files.append(File.generated(config, uri, content=(ROOT / MOVED[uri]).read_text("utf-8")))
    waiting = [file.src_uri for file in files.documentation_pages()]
    waiting += [f"{REPOSITORY}/CONTRIBUTING.md", f"{REPOSITORY}/CHANGELOG.md"]
    while waiting:
        uri = waiting.pop()
        if files.get_file_from_path(uri) is None:
            files.append(generated(uri, config))
        if uri.endswith(".md"):
            waiting += [one for one in linked(uri) if files.get_file_from_path(one) is None]
    return files


def linked(uri: str) -> list[str]:
    """The pages that a page links to."""
    path = file_of(uri)
    if not path.endswith(".md"):
        return []
    text = (ROOT / path).read_text("utf-8")
    found = (target(link, path) for link in LINK.findall(text))
    return [uri_of(one) for one in found if one is not None and not one.endswith(".toml")]


def generated(uri: str, config: Any) -> File:
    """A page of what stands outside of docs/."""
    path = ROOT / file_of(uri)
    if path.suffix in (".svg", ".png"):
        return File.generated(config, uri, abs_src_path=str(path))
    text = path.read_text("utf-8") if path.suffix == ".md" else shown(path)
    return File.generated(config, uri, content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def shown(path: Path) -> str:
    """A source file, or the names in a folder, as a page that search leaves out."""
    name = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {name}\n\n"
    if path.is_dir():
        listed = subprocess.run(["git", "ls-files", name], cwd=ROOT, capture_output=True, text=True)
        return head + "".join(f"- `{one}`\n" for one in listed.stdout.splitlines())
    fence = "`" * 5
    language = LANGUAGES.get(path.suffix, "text")
    return f"{head}{fence}{language}\n{path.read_text('utf-8')}\n{fence}\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where the site has what they mean."""
    uri = page.file.src_uri
    path = file_of(uri)
    if not path.endswith(".md"):
        return markdown
    here = PurePosixPath(uri).parent.as_posix()

    def moved(found: re.Match[str]) -> str:
        goal = target(found[0], path)
        return found[0] if goal is None else os.path.relpath(uri_of(goal), here)

    return LINK.sub(moved, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Nothing is fetched from anywhere."""
    return SHIM.sub(get_relative_url(OURS, page.url), output)


def on_post_build(config: Any) -> None:
    """Refuse a site that fetches anything, or in which a link leads nowhere."""
    site = Path(config.site_dir)
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    problems = [problem for page in pages for problem in amiss(page, site)]
    if problems:
        raise PluginError("\n".join(sorted(problems)[:20]))


def amiss(page: Path, site: Path) -> list[str]:
    """The mistakes in one page."""
    text, name = page.read_text("utf-8"), page.relative_to(site)
    found = [f"{name}: fetches {one}" for one in FETCHED.findall(text)]
    for link in set(LOCAL.findall(text)):
        path = (page.parent / link.partition("#")[0].partition("?")[0]).resolve()
        if not path.exists():
            found.append(f"{name}: {link} leads nowhere")
    return found
