"""Principals: who a client is, by its login, by its certificate, or ANONYMOUS."""

import re
from collections.abc import Sequence

from attrs import frozen

USER = "User:"
ANONYMOUS_USER = "ANONYMOUS"
ANONYMOUS = f"{USER}{ANONYMOUS_USER}"
"""The principal of a client that has not authenticated."""


def user_of(principal: str) -> str:
    """The name of a principal, without its type."""
    return principal.partition(":")[2]


def super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, which semicolons separate. Raises ValueError."""
    found = frozenset(one.strip() for one in text.split(";") if one.strip())
    for one in found:
        if not one.partition(":")[2]:
            raise ValueError(f"super.users: {one!r} is no principal: User:NAME is expected")
    return found


_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER = re.compile(_RULE)
_BACK_REFERENCE = re.compile(r"\\\$|\$(\d+)")


@frozen
class _Rule:
    """DEFAULT if the pattern is None; otherwise what a distinguished name becomes."""

    pattern: "re.Pattern[str] | None"
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        result = self.pattern.sub(lambda match: _replaced(self.replacement, match), name)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


def _replaced(replacement: str, match: "re.Match[str]") -> str:
    """The replacement with `$1` filled in; of `$12` as much as there are groups."""
    most = match.re.groups

    def fill(reference: "re.Match[str]") -> str:
        digits = reference[1]
        if digits is None:
            return "$"
        taken = next((n for n in range(len(digits), 0, -1) if int(digits[:n]) <= most), 0)
        if not taken:
            return reference[0]
        return (match[int(digits[:taken])] or "") + digits[taken:]

    return _BACK_REFERENCE.sub(fill, replacement)


class NoMatchingRule(ValueError):
    """No rule of `ssl.principal.mapping.rules` fits a distinguished name."""


@frozen
class SslPrincipalMapper:
    """`ssl.principal.mapping.rules`: from a distinguished name to a user (KIP-371)."""

    rules: Sequence[_Rule]

    @classmethod
    def of(cls, text: str) -> "SslPrincipalMapper":
        """The rules in a text. Raises ValueError for one that is none."""
        rules: list[_Rule] = []
        for rule in [found[1] for found in _SPLITTER.finditer(text.strip())]:
            parsed = _PARSER.match(rule)
            if parsed is None or parsed.end() != len(rule):
                raise ValueError(f"Invalid rule: {rule}")
            default, pattern, replacement, case, _ = parsed.groups()
            try:
                if default:
                    rules.append(_Rule(None))
                elif pattern is not None:
                    rules.append(_Rule(re.compile(pattern), replacement, case))
            except re.error as wrong:
                raise ValueError(f"Invalid rule: {rule}: {wrong}") from None
            if default is None and pattern is None and rule:
                raise ValueError(f"Invalid rule: {rule}")
        return cls(tuple(rules))

    def user(self, distinguished_name: str) -> str:
        """The user of a certificate, by the first rule that fits. Raises NoMatchingRule."""
        for rule in self.rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {distinguished_name}")
