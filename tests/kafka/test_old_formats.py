"""Message formats v0 and v1, written by Kafka itself and read by both tools.

LZ4 in v0, whose header checksum clients computed wrongly (KAFKA-3160), exists nowhere else any
more.
"""

from collections import Counter
from pathlib import Path

from chaos.real.kafka.judge import Judge
from tests.kafka.compare import assert_same

LOGS = 500
FIRST = "00000000000000000000.log"


def test_we_read_logs_of_the_old_formats_as_kafka_does(judge: Judge, tmp_path: Path) -> None:
    assert judge.run("Legacy", tmp_path, str(LOGS)).status == 0
    seen: Counter[str] = Counter()
    for seed in range(LOGS):
        answer = assert_same(judge, tmp_path / f"{seed}" / FIRST, options=("--print-data-log",))
        assert answer.status == 0
        for line in answer.out.split("\n"):
            if " magic: " in line:
                words = line.split()
                kind = f"v{words[words.index('magic:') + 1]} "
                seen[kind + words[words.index("compresscodec:") + 1]] += 1
            seen["records"] += line.startswith("| ")
            seen["LogAppendTime"] += " LogAppendTime: " in line
    print(f"\n{LOGS} logs: {dict(seen)}")
    codecs = ("none", "gzip", "snappy", "lz4")
    assert all(seen[f"v{magic} {codec}"] > 30 for magic in (0, 1) for codec in codecs)
