"""Lose records that real Kafka has acknowledged: tiered storage is disabled, and enabled again.

Starts a controller and three brokers with tiered storage, and a topic with three replicas and
min.insync.replicas=2 that is kept for ever. Records are copied to the remote tier. Tiered storage
is disabled for the topic, as documented: all of them are in the local logs. Then it is enabled
again, with a short local retention. Nothing fails. It records its client in RUN (trace format v1).
Exit code 1: segments are deleted that were not copied again; 0: all records are read; 2: the
scenario could not be played.
"""

import time
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from examples.brokers import until
from examples.scenario import Scenario, flags_of, program
from examples.tiered import A_SECOND_MS, RECORDS, SIZE, Tiered, with_tier

TOPIC = "tiered"
ALL = [1, 2, 3]
#: More than the tasks that copy and delete take, which run every second.
TASKS_S = 5.0


@define
class TieredAgain(Tiered):
    """The highest offset that was copied is believed after the copies were deleted."""

    first_time: bool = field(kw_only=True)
    restarted: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.create_tiered(ALL, enabled=not self.first_time)
        self.write_many(RECORDS, SIZE)
        if not self.first_time:
            self.copy_and_disable()
        if self.restarted:
            self.restart_all()
        self.fault("tiered storage is enabled, local.retention.ms=1000")
        self.configure_topic(
            remote_storage_enable="true",
            remote_log_delete_on_disable="false",
            local_retention_ms=A_SECOND_MS,
        )
        until("local retention", 120, lambda: all(len(self.local(one)) <= 1 for one in ALL))
        self.wait_for_tasks()
        self.say(self.segments())
        self.producer.close()
        return self.read()

    def copy_and_disable(self) -> None:
        """All but the active segment are copied; then the remote tier is emptied."""
        self.await_copies(1)
        self.say(f"copied: {self.segments()}")
        self.configure_topic(remote_storage_enable="false", remote_log_delete_on_disable="true")
        until("the copies to go", 90, lambda: not self.remote())
        self.wait_for_tasks()
        self.fault(f"tiered storage is disabled for the topic; {self.segments()}")

    def restart_all(self) -> None:
        for broker in ALL:
            self.stop(broker)
            self.start(broker)
            self.await_isr({*ALL})

    def wait_for_tasks(self) -> None:
        """Tasks that find nothing to do leave no trace."""
        time.sleep(TASKS_S)


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, first_time: bool, restarted: bool
) -> Scenario:
    fields = with_tier(folder, classpath, stack, ALL)
    return TieredAgain(
        run=run,
        topic=TOPIC,
        assignment=ALL,
        first_time=first_time,
        restarted=restarted,
        **fields,
    )


if __name__ == "__main__":
    options = flags_of(
        {
            "--first-time": "Enable it once, on a full log: the control.",
            "--restarted": "Restart all brokers before it is enabled again.",
        }
    )
    program(__doc__ or "", start, *options)()
