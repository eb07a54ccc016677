"""Many seeds, one after the other: each is judged, and kept; an interrupted campaign goes on."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from chaos.real.campaign import report
from chaos.real.campaign.judging import judge
from chaos.real.campaign.plan import Plan
from chaos.real.campaign.running import play

VERDICT = "verdict.json"


def run(plan: Plan, version: str, folder: Path) -> dict[str, Any]:
    """Play and judge one plan; its verdict, which is kept in the folder as well."""
    if folder.exists():
        kept = folder.with_name(f"{folder.name}.interrupted")
        shutil.rmtree(kept, ignore_errors=True)
        folder.rename(kept)
    played = play(plan, version, folder)
    judged = judge(played, folder)
    summary = [*report.lines(played, judged)]
    text = "\n".join([*summary, ""])
    for name, said in judged.texts.items():
        text += f"\n{name}\n\n{said}"
    (folder / "report.txt").write_text(text, encoding="utf-8")
    verdict = report.as_json(played, judged) | {"version": version, "summary": summary}
    if not verdict["exit_code"]:  # the logs of brokers are for who follows a find
        shutil.rmtree(folder / "cluster", ignore_errors=True)
    (folder / VERDICT).write_bytes(orjson.dumps(verdict, option=orjson.OPT_INDENT_2))
    return verdict


def verdict_of(folder: Path) -> dict[str, Any] | None:
    """The verdict that a seed has had; None if it has none yet."""
    file = folder / VERDICT
    return orjson.loads(file.read_bytes()) if file.exists() else None


def overview(verdicts: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The campaign so far: what was found, when, and under which kinds of faults."""
    verdicts = list(verdicts)
    played = sum(one["minutes"] for one in verdicts)
    codes = [one["exit_code"] for one in verdicts]
    yield (
        f"{len(verdicts)} seeds, {played:g} minutes: {codes.count(0)} well, "
        f"{codes.count(1)} with something unexplained, {codes.count(2)} not judged"
    )
    names: dict[str, list[tuple[float, int, list[str]]]] = {}
    before = 0.0
    for one in verdicts:
        kinds = [kind for kind, (_, effective, _) in one["effects"].items() if effective]
        for find in one["finds"]:
            name = find["known"] or find["what"]
            at = before + (find["minutes"] if find["minutes"] is not None else one["minutes"])
            names.setdefault(name, []).append((at, one["seed"], kinds))
        before += one["minutes"]
    for name, found in sorted(names.items(), key=lambda item: item[1][0][0]):
        seeds = sorted({seed for _, seed, _ in found})
        at, _, kinds = found[0]
        yield (
            f"  {name}: first after {at:.1f} minutes, {len(found)} times in seeds "
            f"{', '.join(map(str, seeds))}; first under {', '.join(kinds)}"
        )
    totals: dict[str, list[int]] = {}
    for one in verdicts:
        for kind, amounts in one["effects"].items():
            had = totals.setdefault(kind, [0, 0, 0])
            totals[kind] = [a + b for a, b in zip(had, amounts, strict=True)]
    for kind, (ordered, effective, amount) in sorted(totals.items()):
        yield f"  {kind}: {effective} of {ordered} had an effect, {amount:,} in all"
