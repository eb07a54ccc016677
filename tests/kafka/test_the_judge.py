"""The judge itself: it starts, it answers, and it can say no."""

from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker

LOG = "00000000000000000000.log"


def test_a_foreign_file_is_refused_in_so_many_words(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b"\xff" * 100)
    answer = judge.dump(tmp_path / LOG, options=("--deep-iteration",))
    assert answer.status == 1
    assert "CorruptRecordException" in answer.complaints


def test_an_empty_log_is_fine(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / LOG).touch()
    assert judge.dump(tmp_path / LOG).status == 0


def test_a_broker_starts_on_a_folder_of_its_own_and_ends_cleanly(
    judge: Judge, tmp_path: Path
) -> None:
    broker = KafkaBroker(tmp_path)
    broker.format(judge)
    with broker.running() as process:
        assert process.poll() is None
    assert process.returncode in (0, 143)
    assert (broker.log_dir / "meta.properties").exists()
