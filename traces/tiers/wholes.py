"""All summaries of the groups and of the producers of a run: what reaches over all partitions."""

from collections.abc import Iterator

import numpy as np

from traces.context import Ints
from traces.schema import NONE
from traces.tiers.summary import Kind, Told

Doubt = tuple[str, int]  # a check, and the group or transactional id that it is about


def doubtful_groups(told: Told) -> Iterator[Doubt]:
    """Groups in which a commit came after somebody was assigned in a later generation."""
    for (group,), mine in told.kind(Kind.GENERATION).groups("k0"):
        generation, number = np.unique(mine["k1"], return_inverse=True)
        joined = np.full(len(generation), np.iinfo(np.int64).max)
        commit = np.full(len(generation), NONE)
        np.minimum.at(joined, number, mine["v0"])
        np.maximum.at(commit, number, mine["v1"])
        later = np.minimum.accumulate(joined[::-1])[::-1]  # the first to join this or a later one
        if bool(np.any(commit[:-1] > later[1:])):
            yield "G4", group


def doubtful_producers(told: Told) -> Iterator[Doubt]:
    """Producers that may have been fenced, or that may have written side by side."""
    for (tid, pid), mine in told.kind(Kind.EPOCH).groups("k0", "k1"):
        if _late(_ranked(mine) if tid != NONE else mine["v1"], mine):
            yield "P3", tid if tid != NONE else pid
    for (tid,), mine in told.kind(Kind.SESSION).groups("k0"):
        process, number = np.unique(mine["k1"], return_inverse=True)
        begin = np.full(len(process), np.iinfo(np.int64).max)
        end = np.full(len(process), NONE)
        np.minimum.at(begin, number, mine["v0"])
        np.maximum.at(end, number, mine["v1"])
        order = np.argsort(begin)
        if bool(np.any(np.maximum.accumulate(end[order])[:-1] >= begin[order][1:])):
            yield "T8", tid
    for (tid, _), mine in told.kind(Kind.INIT).groups("k0", "k1"):
        epoch = mine.sorted("v0")["v1"]
        if bool(np.any(epoch[1:] <= epoch[:-1])):
            yield "P4", tid


def _ranked(mine: Told) -> Ints:
    """The epoch of each part: which initialisation, of all of one id, its process made last."""
    inits = np.flatnonzero(mine["v5"] == 1)
    rank = np.full(len(mine), NONE)
    rank[inits[np.argsort(mine["v1"][inits], kind="stable")]] = np.arange(len(inits))
    order = np.lexsort((mine["v0"], mine["k2"]))
    last: dict[int, int] = {}
    for row in order.tolist():
        process = int(mine["k2"][row])
        if mine["v5"][row] == 1:
            last[process] = int(rank[row])
        rank[row] = last.get(process, NONE)
    return rank


def _late(epoch: Ints, mine: Told) -> bool:
    """Whether a send of one epoch began after the first sign of a newer one."""
    known = epoch != NONE
    ordered, number = np.unique(epoch[known], return_inverse=True)
    sign, send = np.full(len(ordered), np.iinfo(np.int64).max), np.full(len(ordered), NONE)
    np.minimum.at(sign, number, mine["v2"][known])
    np.maximum.at(send, number, mine["v3"][known])
    newer = np.minimum.accumulate(sign[::-1])[::-1]
    return bool(np.any(newer[1:] < send[:-1]))


def seen(told: Told) -> Iterator[tuple[str, int]]:
    """How much the checks of groups and producers would have looked at."""
    generations = told.kind(Kind.GENERATION)
    joined = generations["k0"][generations["v0"] < np.iinfo(np.int64).max]
    yield "G4", int(generations["v2"][np.isin(generations["k0"], joined)].sum())
    epochs = told.kind(Kind.EPOCH)
    known = (epochs["v1"] != NONE) | (epochs["v5"] == 1)
    keys = epochs["k0"] * 31 + epochs["k1"]
    yield "P3", int(epochs["v4"][np.isin(keys, keys[known])].sum())
    yield "P4", len(told.kind(Kind.INIT))
    yield "T8", int(told.kind(Kind.SESSION)["v2"].sum())
