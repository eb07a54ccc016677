"""Fixes of tiered storage: what is deleted locally is in the remote tier."""

from examples.fixes.edits import STORAGE, Edit, Fix

UNIFIED_LOG = "org/apache/kafka/storage/internals/log/UnifiedLog.java"
EPOCH_STATE = "org/apache/kafka/server/log/remote/metadata/storage/RemoteLogLeaderEpochState.java"

FIXES = {
    # docs/findings/kafka-tiered-again.md: what was deleted of the remote tier is not there.
    "tiered-again": Fix(
        STORAGE,
        EPOCH_STATE,
        (
            Edit(
                "void handleSegmentWithDeleteSegmentStartedState(",
                "offsetToId.remove(startOffset, remoteLogSegmentId);",
                """offsetToId.remove(startOffset, remoteLogSegmentId);
        if (offsetToId.isEmpty())
            highestLogOffset = null;""",
            ),
        ),
        Fix(
            STORAGE,
            UNIFIED_LOG,
            (
                Edit(
                    "public LogConfig updateConfig(",
                    "localLog.updateConfig(newConfig);",
                    """boolean was = remoteLogEnabled();
        localLog.updateConfig(newConfig);
        if (was && !remoteLogEnabled())
            highestOffsetInRemoteStorage = -1L;""",
                ),
            ),
        ),
    ),
    # docs/findings/kafka-tiered-other-lineage.md: what the tier has goes by the log as it is now.
    "tiered-other-lineage": Fix(
        STORAGE,
        UNIFIED_LOG,
        (
            Edit(
                "public void updateHighestOffsetInRemoteStorage(",
                "} else if (offset > highestOffsetInRemoteStorage()) {",
                "} else {",
            ),
            Edit(
                "public boolean truncateTo(",
                "localLog.checkIfMemoryMappedBufferClosed();",
                """localLog.checkIfMemoryMappedBufferClosed();
                            highestOffsetInRemoteStorage =
                                Math.min(highestOffsetInRemoteStorage, targetOffset - 1);""",
            ),
            Edit(
                "public void truncateFullyAndStartAt(",
                "localLog.truncateFullyAndStartAt(newOffset);",
                """localLog.truncateFullyAndStartAt(newOffset);
                        highestOffsetInRemoteStorage =
                            Math.min(highestOffsetInRemoteStorage, newOffset - 1);""",
            ),
        ),
    ),
}
