"""Fixes of share groups."""

from examples.fixes.edits import CORE, Edit, Fix

SHARE_PARTITION = "kafka/server/share/SharePartition.java"

FIXES = {
    # docs/findings/kafka-share-late-write.md: within a state epoch the start never gets lower.
    "share-late-write": Fix(
        "kafka-share-coordinator",
        "org/apache/kafka/coordinator/share/ShareCoordinatorShard.java",
        (
            Edit(
                "snapshotUpdateCount.getOrDefault(key, 0) >= updatesPerSnapshotLimit",
                "partitionData.startOffset() == -1 ? currentState.startOffset() : "
                "partitionData.startOffset()",
                "Math.max(currentState.startOffset(), partitionData.startOffset())",
            ),
            Edit(
                "private static ShareGroupOffset merge(",
                "newData.startOffset() == -1 ? soFar.startOffset() : newData.startOffset()",
                "Math.max(soFar.startOffset(), newData.startOffset())",
            ),
        ),
    ),
    # docs/findings/kafka-share-aborted.md: the start moves over what is archived, too.
    "share-aborted": Fix(
        CORE,
        SHARE_PARTITION,
        (
            Edit(
                "private List<AcquiredRecords> filterAbortedTransactionalAcquiredRecords(",
                "return filterRecordBatchesFromAcquiredRecords(",
                """if (!recordsToArchive.isEmpty())
            maybeUpdateCachedStateAndOffsets();
        return filterRecordBatchesFromAcquiredRecords(""",
            ),
        ),
    ),
    # docs/findings/kafka-share-leader-epoch.md: who is fenced by a leader epoch loads anew.
    "share-leader-epoch": Fix(
        CORE,
        "kafka/server/share/SharePartitionManager.java",
        (
            Edit(
                "> fencedSharePartitionHandler() {",
                "throwable instanceof FencedStateEpochException ||",
                """throwable instanceof FencedStateEpochException ||
                throwable instanceof
                    org.apache.kafka.common.errors.FencedLeaderEpochException ||""",
            ),
        ),
    ),
    # docs/findings/kafka-share-hole.md: the gap window begins behind what was looked at.
    "share-hole": Fix(
        CORE,
        SHARE_PARTITION,
        (
            Edit(
                "There exists another batch which needs to be acquired as well",
                "return new ShareAcquiredRecords(result, acquiredCount);",
                """if (isPersisterReadGapWindowActive()
                    && fetchOffset == persisterReadResultGapWindow.gapStartOffset()) {
                maybeUpdatePersisterGapWindowStartOffset(lastOffsetToAcquire + 1);
                if (startOffset == fetchOffset)
                    startOffset = Math.max(startOffset,
                        Math.min(firstBatch.baseOffset(), cachedState.ceilingKey(fetchOffset)));
                maybeUpdateCachedStateAndOffsets();
            }
            return new ShareAcquiredRecords(result, acquiredCount);""",
            ),
        ),
    ),
    # docs/findings/kafka-share-log-start.md: neither the gap window nor what is available again
    # stays below the log's start.
    "share-log-start": Fix(
        CORE,
        SHARE_PARTITION,
        (
            Edit(
                "void updateCacheAndOffsets(",
                "if (logStartOffset <= startOffset) {",
                """if (persisterReadResultGapWindow != null
                    && persisterReadResultGapWindow.gapStartOffset() < logStartOffset)
                persisterReadResultGapWindow.gapStartOffset(logStartOffset);
            if (logStartOffset <= startOffset) {
                if (!cachedState.isEmpty() && archiveRecords(cachedState.firstKey(), startOffset,
                        cachedState, RecordState.AVAILABLE, false))
                    updateFindNextFetchOffset(true);""",
            ),
        ),
    ),
}
