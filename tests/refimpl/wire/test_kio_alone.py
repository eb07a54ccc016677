"""kio imports Hypothesis where that is installed; whoever starts a broker does not want it."""

import subprocess
import sys

SCRIPT = """
import sys
{before}
import refimpl.edge.testing.cluster
import kio.static._phantom as phantom
print("hypothesis" in sys.modules, phantom.hypothesis is None)
import hypothesis
print(hypothesis.__name__)
"""


def said(before: str) -> list[str]:
    script = SCRIPT.format(before=before)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_a_broker_imports_no_hypothesis_and_hides_it_from_nobody() -> None:
    assert said("") == ["False", "True", "hypothesis"]


def test_who_has_imported_it_keeps_it() -> None:
    assert said("import hypothesis")[0] == "True"
