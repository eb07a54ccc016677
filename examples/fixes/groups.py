"""Fixes of coordinators of groups."""

from examples.fixes.edits import Edit, Fix

HEARD = "HighWatermarkListener highWatermarklistener; long heardWhileLoading = -1L;"

FIXES = {
    # docs/findings/kafka-group-stale-after-load.md: listen before the load, apply it behind.
    "group-stale-after-load": Fix(
        "kafka-coordinator-common",
        "org/apache/kafka/coordinator/common/runtime/CoordinatorRuntime.java",
        (
            Edit(
                "class CoordinatorContext {", "HighWatermarkListener highWatermarklistener;", HEARD
            ),
            Edit(
                "private void transitionTo(",
                "highWatermarklistener = new HighWatermarkListener();",
                """if (heardWhileLoading > coordinator.lastCommittedOffset())
                        coordinator.updateLastCommittedOffset(
                            Math.min(heardWhileLoading, coordinator.lastWrittenOffset()));""",
            ),
            Edit(
                "private void transitionTo(",
                "partitionWriter.registerListener(tp, highWatermarklistener);",
                "",
            ),
            Edit(
                "private void transitionTo(",
                "load();",
                """heardWhileLoading = -1L;
                    highWatermarklistener = new HighWatermarkListener();
                    partitionWriter.registerListener(tp, highWatermarklistener);
                    load();""",
            ),
            Edit(
                "public void onHighWatermarkUpdated(",
                'log.debug("Ignored high watermark',
                """context.heardWhileLoading = newHighWatermark;
                                log.debug("Ignored high watermark""",
            ),
        ),
    ),
    # docs/findings/kafka-downgrade-forgotten.md: who has yet to be told to join has no leader.
    "downgrade-forgotten": Fix(
        "kafka-group-coordinator",
        "org/apache/kafka/coordinator/group/GroupMetadataManager.java",
        (
            Edit(
                "public class GroupMetadataManager {",
                "private final TimelineHashMap<String, Group> groups;",
                """private final TimelineHashMap<String, Group> groups;
    private final Set<String> rebalanceWhenLoaded = new HashSet<>();""",
            ),
            Edit(
                "private void convertToClassicGroup(",
                "classicGroup.createClassicGroupRecords(records);",
                """classicGroup.createClassicGroupRecords(records);
        if (rebalance)
            ((GroupMetadataValue) records.get(records.size() - 1).value().message())
                .setLeader(null);""",
            ),
            Edit(
                "        GroupMetadataKey key,",
                "groups.put(groupId, classicGroup);",
                """groups.put(groupId, classicGroup);
            if (value.leader() == null && !loadedMembers.isEmpty())
                rebalanceWhenLoaded.add(groupId);
            else
                rebalanceWhenLoaded.remove(groupId);""",
            ),
            Edit(
                "public void onLoaded() {",
                "if (classicGroup.numMembers() > config.classicGroupMaxSize()) {",
                """if (rebalanceWhenLoaded.remove(groupId)) {
                        prepareRebalance(classicGroup, "Freshly-loaded group " + groupId +
                            " has members that have yet to join after its downgrade.");
                    } else if (classicGroup.numMembers() > config.classicGroupMaxSize()) {""",
            ),
        ),
    ),
}
