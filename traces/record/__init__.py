"""Recorder: one line around a Kafka client, and what it does and sees is a trace."""

from traces.record.faults import fault
from traces.record.ids import HEADER
from traces.record.run import NotAClientError, recorded
from traces.record.settling import StillRunningError, settle

__all__ = ["HEADER", "NotAClientError", "StillRunningError", "fault", "recorded", "settle"]
