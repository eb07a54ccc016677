"""The APIs that are served, their versions, and the module of this folder that serves each.

A module has `handle`, the `PERMISSIONS` before it, and, where records are in the message, `read`.

An API that is not here is not announced, and a client that sends it is disconnected, as by Kafka.
Modules are imported with the first request for them, so that a start costs little.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from attrs import frozen

from refimpl.api.authorization import AccessRule, Proceed, chained


@frozen
class Api:
    """One API: its key, its name as Kafka writes it, first and last version, and its module."""

    key: int
    name: str
    first: int
    last: int
    module: str

    @cached_property
    def handle(self) -> Callable[..., Any]:
        """The module's `handle`."""
        return _module(self.module).handle

    @cached_property
    def permissions(self) -> Sequence[AccessRule]:
        """The module's `PERMISSIONS`, which a request passes where there is an authorizer."""
        return _module(self.module).PERMISSIONS

    @cached_property
    def authorized(self) -> Proceed:
        """`handle` behind the permissions."""
        return chained(self.permissions, self.handle)

    @cached_property
    def codec(self) -> Any | None:
        """The module's own `read(data, position, version)`, where records are in the message."""
        return getattr(_module(self.module), "read", None)


@cache
def _module(name: str) -> Any:
    return import_module(f"refimpl.api.{name}")


APIS: Mapping[int, Api] = {
    api.key: api
    for api in (
        Api(0, "Produce", 3, 13, "produce"),
        Api(1, "Fetch", 4, 18, "fetch"),
        Api(2, "ListOffsets", 1, 11, "list_offsets"),
        Api(3, "Metadata", 0, 13, "metadata"),
        Api(8, "OffsetCommit", 2, 10, "offset_commit"),
        Api(9, "OffsetFetch", 1, 10, "offset_fetch"),
        Api(10, "FindCoordinator", 0, 6, "find_coordinator"),
        Api(11, "JoinGroup", 0, 9, "join_group"),
        Api(12, "Heartbeat", 0, 4, "heartbeat"),
        Api(13, "LeaveGroup", 0, 5, "leave_group"),
        Api(14, "SyncGroup", 0, 5, "sync_group"),
        Api(15, "DescribeGroups", 0, 6, "describe_groups"),
        Api(16, "ListGroups", 0, 5, "list_groups"),
        Api(17, "SaslHandshake", 0, 1, "sasl_handshake"),
        Api(18, "ApiVersions", 0, 4, "api_versions"),
        Api(19, "CreateTopics", 2, 7, "create_topics"),
        Api(20, "DeleteTopics", 1, 6, "delete_topics"),
        Api(21, "DeleteRecords", 0, 2, "delete_records"),
        Api(22, "InitProducerId", 0, 5, "init_producer_id"),
        Api(23, "OffsetForLeaderEpoch", 2, 4, "offset_for_leader_epoch"),
        Api(24, "AddPartitionsToTxn", 0, 5, "add_partitions_to_txn"),
        Api(25, "AddOffsetsToTxn", 0, 4, "add_offsets_to_txn"),
        Api(26, "EndTxn", 0, 5, "end_txn"),
        Api(27, "WriteTxnMarkers", 1, 2, "write_txn_markers"),
        Api(28, "TxnOffsetCommit", 0, 5, "txn_offset_commit"),
        Api(29, "DescribeAcls", 1, 3, "describe_acls"),
        Api(30, "CreateAcls", 1, 3, "create_acls"),
        Api(31, "DeleteAcls", 1, 3, "delete_acls"),
        Api(32, "DescribeConfigs", 1, 4, "describe_configs"),
        Api(33, "AlterConfigs", 0, 2, "alter_configs"),
        Api(34, "AlterReplicaLogDirs", 1, 2, "alter_replica_log_dirs"),
        Api(35, "DescribeLogDirs", 1, 5, "describe_log_dirs"),
        Api(36, "SaslAuthenticate", 0, 2, "sasl_authenticate"),
        Api(37, "CreatePartitions", 0, 3, "create_partitions"),
        Api(42, "DeleteGroups", 0, 2, "delete_groups"),
        Api(43, "ElectLeaders", 0, 2, "elect_leaders"),
        Api(44, "IncrementalAlterConfigs", 0, 1, "incremental_alter_configs"),
        Api(45, "AlterPartitionReassignments", 0, 1, "alter_partition_reassignments"),
        Api(46, "ListPartitionReassignments", 0, 0, "list_partition_reassignments"),
        Api(47, "OffsetDelete", 0, 0, "offset_delete"),
        Api(48, "DescribeClientQuotas", 0, 1, "describe_client_quotas"),
        Api(49, "AlterClientQuotas", 0, 1, "alter_client_quotas"),
        Api(50, "DescribeUserScramCredentials", 0, 0, "describe_user_scram_credentials"),
        Api(51, "AlterUserScramCredentials", 0, 0, "alter_user_scram_credentials"),
        Api(55, "DescribeQuorum", 0, 2, "describe_quorum"),
        Api(57, "UpdateFeatures", 0, 2, "update_features"),
        Api(60, "DescribeCluster", 0, 2, "describe_cluster"),
        Api(61, "DescribeProducers", 0, 0, "describe_producers"),
        Api(64, "UnregisterBroker", 0, 0, "unregister_broker"),
        Api(65, "DescribeTransactions", 0, 0, "describe_transactions"),
        Api(66, "ListTransactions", 0, 2, "list_transactions"),
        Api(68, "ConsumerGroupHeartbeat", 0, 1, "consumer_group_heartbeat"),
        Api(69, "ConsumerGroupDescribe", 0, 1, "consumer_group_describe"),
        Api(71, "GetTelemetrySubscriptions", 0, 0, "get_telemetry_subscriptions"),
        Api(72, "PushTelemetry", 0, 0, "push_telemetry"),
        Api(74, "ListConfigResources", 0, 1, "list_config_resources"),
        Api(75, "DescribeTopicPartitions", 0, 0, "describe_topic_partitions"),
        Api(76, "ShareGroupHeartbeat", 1, 1, "share_group_heartbeat"),
        Api(77, "ShareGroupDescribe", 1, 1, "share_group_describe"),
        Api(78, "ShareFetch", 1, 2, "share_fetch"),
        Api(79, "ShareAcknowledge", 1, 2, "share_acknowledge"),
        Api(83, "InitializeShareGroupState", 0, 0, "initialize_share_group_state"),
        Api(84, "ReadShareGroupState", 0, 0, "read_share_group_state"),
        Api(85, "WriteShareGroupState", 0, 1, "write_share_group_state"),
        Api(86, "DeleteShareGroupState", 0, 0, "delete_share_group_state"),
        Api(87, "ReadShareGroupStateSummary", 0, 1, "read_share_group_state_summary"),
        Api(90, "DescribeShareGroupOffsets", 0, 1, "describe_share_group_offsets"),
        Api(91, "AlterShareGroupOffsets", 0, 0, "alter_share_group_offsets"),
        Api(92, "DeleteShareGroupOffsets", 0, 0, "delete_share_group_offsets"),
    )
}
