"""Read TLC's report as it is written under `-tool`: messages with numbers, between markers."""

import re
from collections.abc import Iterator

from attrs import define, field, frozen

from properties.tla.checker import CounterexampleStep
from properties.tla.syntax import parse
from properties.tla.values import Value

SUCCESS = 2193
STATISTICS = 2199
TEMPORAL = 2212
SEARCH_DEPTH = 2194
STATE = 2217
STUTTERING = 2218
BACK_TO_STATE = 2122
PARSE_FAILED = 3002
OUT_OF_MEMORY = (1001, 1002)

#: The text of each kind of violation, and the exit code that must come with it.
VIOLATIONS = {
    2107: (12, re.compile(r"Invariant (?P<name>.+?) is violated by the initial state:")),
    2108: (13, re.compile(r"Property (?P<name>.+?) is violated by the initial state:")),
    2110: (12, re.compile(r"Invariant (?P<name>.+?) is violated\.")),
    2112: (13, re.compile(r"Action property (?P<name>.+?) is violated\.")),
    2116: (13, re.compile(r"Temporal properties were violated")),
}
_IN_INITIAL_STATE = (2107, 2108)
_ERROR = 1
_MARKER = re.compile(r"@!@!@(STARTMSG|ENDMSG) (\d+)(?::(\d+))? @!@!@\n?")
_COUNTS = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states")
_STATE_HEAD = re.compile(r"\d+: <(?:(?P<initial>Initial predicate)|(?P<action>\w+)[^>]*)>\n")
_CONJUNCT = re.compile(r"^/\\ (\w+) = ", re.MULTILINE)


@frozen
class TlcMessage:
    code: int
    severity: int
    text: str


@define
class TlcReport:
    """TLC's messages in order, and a model's own output between them."""

    messages: list[TlcMessage] = field(factory=list[TlcMessage])
    printed: str = ""

    @classmethod
    def read(cls, output: str) -> "TlcReport":
        """Split the output at its markers. A message may hold another: the inner comes first."""
        report = cls()
        open_messages: list[tuple[int, int, list[str]]] = []
        outside: list[str] = []
        at = 0
        for marker in _MARKER.finditer(output):
            (open_messages[-1][2] if open_messages else outside).append(output[at : marker.start()])
            at = marker.end()
            if marker[1] == "STARTMSG":
                open_messages.append((int(marker[2]), int(marker[3]), []))
            elif open_messages:
                code, severity, parts = open_messages.pop()
                text = "".join(parts)
                report.messages.append(TlcMessage(code, severity, text.strip("\n")))
                if open_messages:
                    open_messages[-1][2].append(text)
        report.printed = "".join(outside) + output[at:]
        return report

    def first(self, *codes: int) -> TlcMessage | None:
        return next((message for message in self.messages if message.code in codes), None)

    def violation(self) -> TlcMessage | None:
        return self.first(*VIOLATIONS)

    def counts(self) -> tuple[int, int, int] | None:
        """States generated, distinct, and left to explore."""
        message = self.first(STATISTICS)
        match = _COUNTS.search(message.text) if message else None
        if match is None:
            return None
        generated, distinct, left = (int(number.replace(",", "")) for number in match.groups())
        return generated, distinct, left

    def depth(self) -> int | None:
        message = self.first(SEARCH_DEPTH)
        match = re.search(r"search is (\d+)", message.text) if message else None
        return int(match[1]) if match else None

    def steps(self) -> tuple[CounterexampleStep, ...]:
        """The counterexample."""
        violation = self.violation()
        if violation is not None and violation.code in _IN_INITIAL_STATE:
            return (CounterexampleStep(None, parse_state(violation.text.partition("\n")[2])),)
        return tuple(self._steps())

    def _steps(self) -> Iterator[CounterexampleStep]:
        for message in self.messages:
            if message.code == STATE:
                head = _STATE_HEAD.match(message.text)
                action = head["action"] if head else None
                yield CounterexampleStep(
                    action, parse_state(message.text[head.end() if head else 0 :])
                )

    def back_to(self) -> int | None:
        """The state to which a lasso returns; stuttering returns to the last state itself."""
        back = self.first(BACK_TO_STATE)
        if back is not None:
            return int(back.text.partition(":")[0])
        if self.first(STUTTERING) is not None:
            return sum(message.code == STATE for message in self.messages)
        return None

    def complaint(self) -> str:
        """The reason for which TLC gave up, in its own words."""
        said = [message.text.strip() for message in self.messages if message.severity == _ERROR]
        if self.first(PARSE_FAILED) is not None:
            said = [_without_noise(self.printed), *said]
        return "\n".join(said)


def _without_noise(printed: str) -> str:
    noise = ("Parsing file", "Semantic processing", "Residual stack trace", "tla2sany.")
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith(noise)]
    return "\n".join(lines)


def parse_state(text: str) -> dict[str, Value]:
    """A state as TLC prints it, one conjunct per variable, in the module's order or not."""
    starts = list(_CONJUNCT.finditer(text))
    if not starts:
        name, _, value = text.partition(" = ")
        return {name.strip(): parse(value)}
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {
        match[1]: parse(text[match.end() : end]) for match, end in zip(starts, ends, strict=True)
    }
