"""Which errors are a certain *no*, and which leave everybody in the dark.

`fail` says that it certainly did not happen. A client may say so only of what it knows: a refusal
at the call itself; a refusal of the broker that depends on nothing but the record, so that an
earlier attempt, whose answer was lost, was refused as well; and any refusal before the write, where
the client makes one attempt only. Time-outs, broken connections and purges are `info`, for the
request may have been carried out. So is an error that is not in these tables.
"""

from typing import Final

#: Kafka's names of its errors, by code, as far as recorded clients meet them.
NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    10: "MESSAGE_TOO_LARGE",
    12: "OFFSET_METADATA_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    21: "INVALID_REQUIRED_ACKS",
    22: "ILLEGAL_GENERATION",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT",
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS",
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    39: "INVALID_REPLICA_ASSIGNMENT",
    40: "INVALID_CONFIG",
    42: "INVALID_REQUEST",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    52: "TRANSACTION_COORDINATOR_FENCED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    59: "UNKNOWN_PRODUCER_ID",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    73: "TOPIC_DELETION_DISABLED",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    79: "MEMBER_ID_REQUIRED",
    82: "FENCED_INSTANCE_ID",
    86: "GROUP_SUBSCRIBED_TO_TOPIC",
    87: "INVALID_RECORD",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    90: "PRODUCER_FENCED",
    100: "UNKNOWN_TOPIC_ID",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
    120: "TRANSACTION_ABORTABLE",
}
CODES: Final = {name: code for code, name in NAMES.items()}


def _codes(names: str) -> frozenset[int]:
    return frozenset(CODES[name] for name in names.split())


#: A send that the broker refused for what the record is: no attempt can have succeeded.
REFUSED_RECORD: Final = _codes(
    "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_TIMESTAMP INVALID_RECORD "
    "UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE INVALID_TOPIC_EXCEPTION"
)
#: A send that the broker refused before it wrote: certain only of a client that never retries.
#: NOT_ENOUGH_REPLICAS_AFTER_APPEND is not here: its name says why.
REFUSED_ATTEMPT: Final = _codes(
    "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER NOT_ENOUGH_REPLICAS "
    "INVALID_REQUIRED_ACKS TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED POLICY_VIOLATION CORRUPT_MESSAGE"
)
#: A commit that the group's coordinator refused, where it was the first attempt.
REFUSED_COMMIT: Final = _codes(
    "OFFSET_METADATA_TOO_LARGE ILLEGAL_GENERATION INVALID_GROUP_ID UNKNOWN_MEMBER_ID "
    "REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED "
    "GROUP_AUTHORIZATION_FAILED FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH"
)


def send_outcome(code: int | None, retries: int | None) -> str:
    """The outcome of the record, by the error in its delivery report."""
    if code in REFUSED_RECORD or (code in REFUSED_ATTEMPT and retries == 0):
        return "fail"
    return "info"


#: No client waits less than this before it repeats a commit whose answer was lost. (Their back-off
#: is 100 ms, with jitter 80.) A refusal that took longer may have been the second answer.
FIRST_ATTEMPT_NS: Final = 50_000_000


def commit_outcome(code: int | None, took_ns: int) -> str:
    """The outcome of the offsets, by the error in the answer to a commit."""
    return "fail" if code in REFUSED_COMMIT and took_ns < FIRST_ATTEMPT_NS else "info"
