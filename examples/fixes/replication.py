"""Fixes of what lost or stopped replicas: the ISR, its requests, reassignments."""

from examples.fixes.edits import CORE, METADATA, Edit, Fix

CONTROL_MANAGER = "org/apache/kafka/controller/ReplicationControlManager.java"

FIXES = {
    # docs/findings/kafka-late-alter-partition.md, fix 1: a refusal raises the partition epoch.
    "late-alter-partition": Fix(
        METADATA,
        CONTROL_MANAGER,
        (
            Edit(
                "Errors validationError = validateAlterPartitionData(",
                "if (validationError != Errors.NONE) {",
                """if (validationError == INELIGIBLE_REPLICA)
                    records.add(new ApiMessageAndVersion(
                        new PartitionChangeRecord()
                            .setTopicId(topic.id).setPartitionId(partitionId),
                        featureControl.metadataVersionOrThrow().partitionChangeRecordVersion()));
                if (validationError != Errors.NONE) {""",
            ),
        ),
    ),
    # docs/findings/kafka-equal-partition-epoch.md: what is asked for stays at an equal epoch.
    "equal-partition-epoch": Fix(
        CORE,
        "kafka/cluster/Partition.scala",
        (
            Edit(
                "def makeLeader(",
                "val replicas = partitionRegistration.replicas",
                """val pending = Option.when(isLeader && !isNewLeaderEpoch &&
        partitionRegistration.partitionEpoch == partitionEpoch)(partitionState)
      val replicas = partitionRegistration.replicas""",
            ),
            Edit(
                "def makeLeader(",
                "createLogInAssignedDirectoryId(",
                """pending.foreach(state => partitionState = state)
      createLogInAssignedDirectoryId(""",
            ),
        ),
    ),
    # docs/findings/kafka-unregistered-follower.md, fix 1: who fetches unregistered does not join.
    "unregistered-follower": Fix(
        CORE,
        "kafka/cluster/Partition.scala",
        (Edit("def isBrokerEpochIsrEligible(", "storedBrokerEpoch.get == -1 || ", ""),),
    ),
    # The same, fix 2: a broker follows nobody before the controller has it registered, caught up.
    "unregistered-follower-waits": Fix(
        CORE,
        "kafka/server/BrokerServer.scala",
        (
            Edit(
                "// Install all the metadata publishers.",
                "FutureUtils.waitWithLogging(",
                """FutureUtils.waitWithLogging(logger.underlying, logIdent,
        "the controller to acknowledge that we are caught up",
        lifecycleManager.initialCatchUpFuture, startupDeadline, time)
      FutureUtils.waitWithLogging(""",
            ),
        ),
    ),
    # docs/findings/kafka-deleted-records.md: who joins has deleted what the leader has.
    "deleted-records": Fix(
        CORE,
        "kafka/cluster/Partition.scala",
        (
            Edit(
                "private def isFollowerInSync(",
                "followerEndOffset >= leaderLog.highWatermark",
                """followerReplica.stateSnapshot.logStartOffset >= leaderLog.logStartOffset &&
        followerEndOffset >= leaderLog.highWatermark""",
            ),
        ),
    ),
    # docs/findings/kafka-reassignment-stuck.md: lists of the new move, compared with the originals.
    "reassignment-stuck": Fix(
        METADATA,
        CONTROL_MANAGER,
        (
            Edit(
                "Optional<ApiMessageAndVersion> changePartitionReassignment(",
                "if (!reassignment.removing().isEmpty()) {",
                "{",
            ),
            Edit(
                "Optional<ApiMessageAndVersion> changePartitionReassignment(",
                "if (!reassignment.adding().isEmpty()) {",
                "{",
            ),
            Edit(
                "Optional<ApiMessageAndVersion> changePartitionReassignment(",
                "builder.setTargetAdding(reassignment.adding());",
                """List<Integer> adding = new ArrayList<>(target.replicas());
            List<Integer> original = new ArrayList<>(currentReplicas);
            original.removeAll(Replicas.toList(part.addingReplicas));
            adding.removeAll(original);
            builder.setTargetAdding(adding);""",
            ),
        ),
    ),
    # docs/findings/kafka-raised-min-isr.md: another minimum is another partition epoch.
    "raised-min-isr": Fix(
        METADATA,
        CONTROL_MANAGER,
        (Edit("int removeTopicElrs(", "partition.elr.length != 0 ||", "true ||"),),
        Fix(
            METADATA,
            "org/apache/kafka/image/TopicDelta.java",
            (Edit("void maybeClearElr(", "partition.elr.length != 0 ||", "true ||"),),
        ),
    ),
}
