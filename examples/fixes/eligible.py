"""Fixes of who is eligible to lead: the log that made a replica eligible must be there."""

from examples.fixes.edits import CORE, METADATA, Edit, Fix

FIXES = {
    # docs/findings/kafka-elr-removed-replica.md: a replica that is removed is not eligible.
    "elr-removed-replica": Fix(
        METADATA,
        "org/apache/kafka/controller/PartitionChangeBuilder.java",
        (
            Edit(
                "private void maybePopulateTargetElr(",
                "Arrays.stream(partition.isr).forEach(candidateSet::add);",
                """Arrays.stream(partition.isr).forEach(candidateSet::add);
        candidateSet.retainAll(targetReplicas);""",
            ),
            Edit(
                "private void maybePopulateTargetElr(",
                "candidateSet.addAll(targetLastKnownElr);",
                """candidateSet.addAll(targetLastKnownElr);
        candidateSet.retainAll(targetReplicas);""",
            ),
        ),
    ),
    # docs/findings/kafka-directory-taken-out.md: who lacks a directory was not shut down cleanly.
    "directory-taken-out": Fix(
        METADATA,
        "org/apache/kafka/controller/ClusterControlManager.java",
        (
            Edit(
                "boolean isCleanShutdown = cleanShutdownDetectionEnabled ?",
                "storedBrokerEpoch == request.previousBrokerEpoch() : false;",
                """storedBrokerEpoch == request.previousBrokerEpoch()
                    && request.logDirs().containsAll(existing.directories()) : false;""",
            ),
        ),
    ),
    # docs/findings/kafka-future-copy.md: a copy that is behind does not replace the replica.
    "future-copy": Fix(
        CORE,
        "kafka/log/LogManager.scala",
        (
            Edit(
                "def recoverAbandonedFutureLogs(",
                "abandonedFutureLogs.foreach { case (futureLog, currentLog) =>",
                """abandonedFutureLogs.filter { case (futureLog, currentLog) =>
      currentLog.forall(_.logEndOffset <= futureLog.logEndOffset)
    }.foreach { case (futureLog, currentLog) =>""",
            ),
        ),
    ),
    # docs/findings/kafka-electable-not-elected.md: elected by the directory that is reported.
    "electable-not-elected": Fix(
        METADATA,
        "org/apache/kafka/controller/ReplicationControlManager.java",
        (
            Edit(
                "AssignReplicasToDirsResponseData> handleAssignReplicasToDirs(",
                "new LeaderAcceptor(clusterControl, partitionRegistration),",
                """replica -> replica == brokerId
                                ? clusterControl.isActive(brokerId) && !directoryIsOffline
                                : new LeaderAcceptor(
                                    clusterControl, partitionRegistration).test(replica),""",
            ),
        ),
    ),
    # docs/findings/kafka-joins-without-records.md: who has nothing to compare begins as the leader.
    "joins-without-records": Fix(
        CORE,
        "kafka/server/AbstractFetcherThread.scala",
        (
            Edit(
                "private def fetchOffsetAndTruncate(",
                "val replicaEndOffset = logEndOffset(topicPartition)",
                """if (latestEpoch(topicPartition).isEmpty) {
      val startOffset = leader.fetchEarliestOffset(topicPartition, currentLeaderEpoch).offset
      truncateFullyAndStartAt(topicPartition, startOffset)
      return new PartitionFetchState(topicId.toJava, startOffset, Optional.empty(),
        currentLeaderEpoch, ReplicaState.FETCHING, latestEpoch(topicPartition))
    }
    val replicaEndOffset = logEndOffset(topicPartition)""",
            ),
        ),
        Fix(
            CORE,
            "kafka/server/ReplicaManager.scala",
            (
                Edit(
                    "protected def initialFetchOffset(",
                    "if (log.latestEpoch.isPresent)",
                    """if (log.latestEpoch.isEmpty && log.logStartOffset > 0)
      -1L
    else if (log.latestEpoch.isPresent)""",
                ),
            ),
        ),
    ),
}
