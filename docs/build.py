"""Build the pages that quote: `make docs`. With --check, say which page is out of date and exit 1.

A promise's section shows formula, machine, failing model and trace check side by side. All of it is
taken from the files themselves, so a page that is up to date cannot contradict them.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import check_page
import delivery_page
import jinja2
import settings_page
import wire_page

from examples.recipe.faults import FAULTS
from examples.recipe.page import page
from examples.recipe.results import Results
from examples.recipe.steps import rows
from properties.tla.specs import ModelConfig
from traces.second_checker import PREDICATES

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "spec" / "tla"

PROMISES = """\
# The promises

One section per promise: why it matters, the formula, and the rules that keep it, each with its
function. Then come the models that must fail without them, and the checks that find a breach in a
recording. Built by `make docs`.
{% for promise in promises %}
## {{ promise.title }}

{{ promise.text }}
{%- if promise.kips %}
History: {{ promise.kips | join(", ") }}.
{% endif %}
```tla
{{ promise.formula }}
```
{% for rule in promise.rules %}
`{{ rule.action }}` in [{{ rule.module }}](../{{ rule.tla }}) is `{{ rule.name }}` in
[{{ rule.file }}](../{{ rule.file }}):

```tla
{{ rule.formula }}
```

```python
{{ rule.code }}
```
{% endfor %}
Without it:
{% for row in promise.broken %}
- `{{ row.cfg }}`: `{{ row.property }}` is violated in {{ row.length }} states;
  {{ row.note }}
{%- endfor %}

In a recording ([checks](traces.md)), and each witness again by a second checker:
{% for check in promise.checks %}
- {{ check.id }}, `{{ check.name }}` in [{{ check.file }}](../{{ check.file }}): {{ check.promise }}
{%- endfor %}
{% endfor %}"""

TOUR = """\
# A tour: one record, from a client's send to another client's poll

Each step names its function and, where it is a rule of the protocol, the spec's definition \
of that rule.
Built by `make docs`, which fails when a name is gone.
{% for part in parts %}
## {{ part.title }}

{{ part.text.strip() }}
{% for step in part.steps %}
{{ step.number }}. **`{{ step.name }}`** in [{{ step.file }}](../{{ step.file }}). {{ step.text }}
   {%- if step.tla %} Spec: [`{{ step.module }}!{{ step.operator }}`](../{{ step.tla }}).{% endif %}
{% endfor %}
{%- endfor %}"""

VERDICTS = """\
# The verdicts

What TLC must say of every configuration. Built from the tables beside the modules by `make docs`;
`highwater spec` holds them; those marked *full* with `--full`, or when they are named. *length*
counts the states of the shortest counterexample. *bounds* are those of
the model that shows a bug: all constants that are no rules or settings.
{% for module, rows in tables %}
## {{ module }}

| configuration | expected | length | distinct | depth | bounds | history | |
|---|---|---|---|---|---|---|---|
{%- for row in rows %}
| `{{ row.cfg }}` \
| {{ "passes" if row.expect == "pass" else "`%s` is violated" % row.property }} \
| {{ row.length or "" }} | {{ "{:,}".format(row.distinct) }} | {{ row.depth }} | {{ row.bounds }} \
| {{ [row.kip, row.jira] | select | join(", ") }} | {{ row.note }}{{ " *(full)*" if row.full }} |
{%- endfor %}
{% endfor %}"""


def definition(name: str) -> tuple[Path, str]:
    """A TLA+ definition, `Module.Name`, with the comment above it: up to the next empty line."""
    module, _, operator = name.partition(".")
    path = SPECS / module / f"{module}.tla"
    pattern = rf"((?:^\(\*.*\*\)\n)*)^{operator}(?:\(.*\))? ==(?:.*\n)(?:^(?! *$).*\n)*"
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{path.name} does not define {operator}")
    return path.relative_to(ROOT), found.group().rstrip()


def function(name: str) -> tuple[Path, str]:
    """A Python function, `package.module:Class.method`, as it stands in its file."""
    module, _, qualified = name.partition(":")
    path = ROOT / (module.replace(".", "/") + ".py")
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in qualified.split("."):
        inside = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
        if not inside:
            raise SystemExit(f"{path.name} does not define {qualified}")
        node = inside[0]
    segment = ast.get_source_segment(source, node, padded=True) or ""
    lines = segment.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return path.relative_to(ROOT), "\n".join(line[indent:] for line in lines)


def table(module: str) -> list[dict[str, Any]]:
    """The rows of a module's table of verdicts, those of bugs with the bounds that show them."""
    path = SPECS / module / "verdicts.toml"
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = told["verdict"]
    for row in rows:
        constants = ModelConfig.read(path.parent / "cfg" / f"{row['cfg']}.cfg").assigned()
        bounds = {name: of for name, of in constants.items() if name not in told.get("rules", ())}
        named = ", ".join(f"{name} = {of}" for name, of in bounds.items())
        row["bounds"] = named if row["kind"] == "bug" else ""
    return rows


def second(id: str) -> dict[str, str]:
    """The function that judges a check's witnesses again, and the promise that it negates."""
    negation: Any = PREDICATES[id]
    file = negation.__module__.replace(".", "/") + ".py"
    promise = " ".join((negation.__doc__ or "").split())
    return {"id": id, "name": negation.__name__, "file": file, "promise": promise}


def quoted(promise: dict[str, Any]) -> dict[str, Any]:
    """A promise with everything that it names put in its place."""
    rules: list[dict[str, str]] = []
    for action, machine in promise["rules"]:
        tla, formula = definition(action)
        file, code = function(machine)
        module, _, operator = action.partition(".")
        rules.append(
            {
                "action": operator,
                "module": module,
                "tla": str(tla),
                "formula": formula,
                "name": machine.partition(":")[2],
                "file": str(file),
                "code": code,
            }
        )
    broken: list[dict[str, Any]] = []
    for name in promise["broken"]:
        module, _, cfg = name.partition("/")
        row = next((row for row in table(module) if row["cfg"] == cfg), None)
        if row is None:
            raise SystemExit(f"docs/promises.toml: no verdict {name}")
        broken.append(row | {"cfg": name})
    return promise | {
        "formula": definition(promise["formula"])[1],
        "rules": rules,
        "broken": broken,
        "checks": [second(id) for id in promise["checks"]],
        "text": promise["text"].strip() + "\n",
    }


def tour() -> list[dict[str, Any]]:
    """The parts of the tour; their steps are numbered through."""
    parts = tomllib.loads((ROOT / "docs/tour.toml").read_text(encoding="utf-8"))["part"]
    number = 0
    for part in parts:
        part["steps"] = []
        for step in part["step"]:
            number += 1
            file, _ = function(step["function"])
            found: dict[str, Any] = {"number": number, "file": str(file)}
            found["name"] = step["function"].partition(":")[2]
            if action := step.get("action"):
                module, _, operator = action.partition(".")
                found |= {"tla": str(definition(action)[0]), "module": module}
                found["operator"] = operator
            part["steps"].append(step | found)
    return parts


def recipe_page() -> str:
    """The no-loss recipe, as it was played last."""
    results = Results()
    if not results.load() or len(results.cells) < len(rows()) * len(FAULTS):
        raise SystemExit("examples/recipe was not played to its end as it is: run `make recipe`")
    return page(results.cells)


def pages() -> dict[Path, str]:
    """Every built page and its text."""
    environment = jinja2.Environment(keep_trailing_newline=True)
    promises = tomllib.loads((ROOT / "docs/promises.toml").read_text(encoding="utf-8"))["promise"]
    modules = sorted(path.parent.name for path in SPECS.glob("*/verdicts.toml"))
    built = {
        **check_page.files(),
        "delivery.md": delivery_page.page(),
        "settings.md": settings_page.page(),
        "wire.md": wire_page.page(),
        "recipe.md": recipe_page(),
        "promises.md": environment.from_string(PROMISES).render(
            promises=[quoted(promise) for promise in promises]
        ),
        "tour.md": environment.from_string(TOUR).render(parts=tour()),
        "verdicts.md": environment.from_string(VERDICTS).render(
            tables=[(module, table(module)) for module in modules]
        ),
    }
    return {ROOT / "docs" / name: text.rstrip() + "\n" for name, text in built.items()}


def main() -> None:
    """Write the pages and remove drawings that none of them shows, or with --check compare."""
    stale: list[str] = []
    built = pages()
    for path, text in built.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    for path in sorted((ROOT / "docs/checks").glob("*.svg")):
        if path not in built:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.unlink()
                print(f"removed {path.relative_to(ROOT)}")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")


if __name__ == "__main__":
    main()
