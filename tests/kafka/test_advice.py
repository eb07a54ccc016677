"""Lines of logs that `highwater explain` tells people to look for are in Kafka 4.3.1."""

import re
from zipfile import ZipFile

from chaos.real.kafka.judge import jars
from traces.checks.advice import advice


def test_kafka_writes_each_line_that_is_quoted() -> None:
    said = {item for one in advice().values() for item in (*one.causes, *one.look)}
    quoted = {line for item in said for line in re.findall("“([^”]+)”", item)}
    assert len(quoted) > 20
    missing = set(quoted)
    for jar in sorted(jars().glob("kafka*.jar")):
        with ZipFile(jar) as classes:
            for name in classes.namelist():
                if name.endswith(".class") and missing:
                    held = classes.read(name)
                    missing -= {line for line in missing if line.encode() in held}
    assert not missing
