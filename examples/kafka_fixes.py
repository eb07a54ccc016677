"""Compile Apache Kafka's own classes with the fix of a finding, to be put before its jars.

    python examples/kafka_fixes.py FIX FOLDER

Maven fetches the source of the class; a few of its lines are changed, as named below, and it is
compiled against the jars. `--classes FOLDER` of the example then plays the finding on that Kafka.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import click
from attrs import frozen

from chaos.real.kafka.judge import NoMavenError, jars

KAFKA, SCALA = "4.3.1", "2.13.18"
CORE, METADATA = "kafka_2.13", "kafka-metadata"
COMPILER = ("scala-compiler", "scala-library", "scala-reflect")
CONTROL_MANAGER = "org/apache/kafka/controller/ReplicationControlManager.java"
PRODUCERS = "org/apache/kafka/clients/producer/internals/"
SHARE_PARTITION = "kafka/server/share/SharePartition.java"
HEARD = "HighWatermarkListener highWatermarklistener; long heardWhileLoading = -1L;"


@frozen
class Edit:
    """At the first place behind `after` where the source has `old`, it has `new`."""

    after: str
    old: str
    new: str


@frozen
class Fix:
    """What is changed in one source file of an artifact, and in `more` files."""

    artifact: str
    path: str
    edits: tuple[Edit, ...]
    more: "Fix | None" = None


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
    # docs/findings/kafka-marker-dropped.md: a partition without leader has a node, which is none.
    "marker-dropped": Fix(
        METADATA,
        "org/apache/kafka/metadata/KRaftMetadataCache.java",
        (
            Edit(
                "public Optional<Node> getPartitionLeaderEndpoint(",
                ".flatMap(partition -> Optional",
                ".map(partition -> Optional",
            ),
            Edit(
                "public Optional<Node> getPartitionLeaderEndpoint(",
                ".map(broker -> broker.node(listenerName.value()).orElse(Node.noNode())));",
                ".flatMap(broker -> broker.node(listenerName.value())).orElse(Node.noNode()));",
            ),
        ),
    ),
    # docs/findings/kafka-old-timestamps.md: a producer expires by when this broker heard of it.
    "old-timestamps": Fix(
        "kafka-storage",
        "org/apache/kafka/storage/internals/log/ProducerStateManager.java",
        (
            Edit(
                "public class ProducerStateManager {",
                "private final Map<Long, VerificationStateEntry>",
                """private final Map<Long, Long> heardMs = new HashMap<>();
    private final Map<Long, VerificationStateEntry>""",
            ),
            Edit(
                "private void addProducerId(",
                "producers.put(producerId, entry);",
                """producers.put(producerId, entry);
        heardMs.put(producerId, time.milliseconds());""",
            ),
            Edit(
                "private void loadFromSnapshot(",
                ".filter(producerEntry -> !isProducerExpired(currentTime, producerEntry))",
                "",
            ),
            Edit(
                "private boolean isProducerExpired(",
                "producerState.lastTimestamp()",
                "heardMs.getOrDefault(producerState.producerId(), -1L)",
            ),
            Edit(
                "public void removeExpiredProducers(",
                "producerIdCount = producers.size();",
                """heardMs.keySet().retainAll(producers.keySet());
        producerIdCount = producers.size();""",
            ),
            Edit(
                "public void update(ProducerAppendInfo",
                "ProducerStateEntry updatedEntry",
                """heardMs.put(appendInfo.producerId(), time.milliseconds());
        ProducerStateEntry updatedEntry""",
            ),
        ),
    ),
    # docs/findings/kafka-zombie-aborts.md: who names an epoch may end the transaction of no other.
    "zombie-aborts": Fix(
        CORE,
        "kafka/coordinator/transaction/TransactionCoordinator.scala",
        (
            Edit(
                "private def prepareInitProducerIdTransit(",
                "Right(coordinatorEpoch, txnMetadata.prepareFenceProducerEpoch())",
                """if (expectedProducerIdAndEpoch.exists(named =>
            named.producerId != txnMetadata.producerId || named.epoch != txnMetadata.producerEpoch))
            Left(Errors.PRODUCER_FENCED)
          else
            Right(coordinatorEpoch, txnMetadata.prepareFenceProducerEpoch())""",
            ),
        ),
    ),
    # docs/findings/kafka-past-window.md: what was sent since the first unanswered batch is bounded.
    "past-window": Fix(
        "kafka-clients",
        f"{PRODUCERS}ProducerBatch.java",
        (
            Edit(
                "public final class ProducerBatch {",
                "final TopicPartition topicPartition;",
                "final TopicPartition topicPartition; int number;",
            ),
        ),
        Fix(
            "kafka-clients",
            f"{PRODUCERS}TxnPartitionEntry.java",
            (
                Edit(
                    "void addInflightBatch(ProducerBatch batch) {",
                    "inflightBatchesBySequence.add(batch);",
                    """batch.number = numbered++;
        inflightBatchesBySequence.add(batch);
    }

    private int numbered;

    boolean isWindowFull() {
        return hasInflightBatches() && numbered - nextBatchBySequence().number >= 5;""",
                ),
            ),
            Fix(
                "kafka-clients",
                f"{PRODUCERS}TransactionManager.java",
                (
                    Edit(
                        "synchronized void addInFlightBatch(",
                        "synchronized void addInFlightBatch(",
                        """synchronized boolean isWindowFull(TopicPartition topicPartition) {
        return txnPartitionMap.getOrCreate(topicPartition).isWindowFull();
    }

    synchronized void addInFlightBatch(""",
                    ),
                ),
                Fix(
                    "kafka-clients",
                    f"{PRODUCERS}RecordAccumulator.java",
                    (
                        Edit(
                            "private boolean shouldStopDrainBatchesForPartition(",
                            "if (!first.hasSequence()) {",
                            """if (!first.hasSequence()) {
                if (transactionManager.isWindowFull(tp))
                    return true;""",
                        ),
                    ),
                ),
            ),
        ),
    ),
    # docs/findings/kafka-stale-batch.md: what was polled is committed as of its poll.
    "stale-batch": Fix(
        "kafka-clients",
        "org/apache/kafka/clients/consumer/internals/AsyncKafkaConsumer.java",
        (
            Edit(
                "private final ApplicationEventHandler applicationEventHandler;",
                "private final Time time;",
                """private final Time time;
    private Optional<ConsumerGroupMetadata> polledGroupMetadata = Optional.empty();""",
            ),
            Edit(
                "final Fetch<K, V> fetch = pollForFetches(timer);",
                "if (!fetch.isEmpty()) {",
                """if (!fetch.isEmpty()) {
                    polledGroupMetadata = groupMetadata.get();""",
            ),
            Edit(
                "public ConsumerGroupMetadata groupMetadata() {",
                "return groupMetadata.get().get();",
                "return polledGroupMetadata.or(groupMetadata::get).get();",
            ),
            Edit(
                "private void resetGroupMetadata() {",
                "groupMetadata.updateAndGet(",
                """polledGroupMetadata = Optional.empty();
        groupMetadata.updateAndGet(""",
            ),
        ),
    ),
    # docs/findings/kafka-uncommitted-load.md: the load ends when what was loaded is committed.
    "uncommitted-load": Fix(
        CORE,
        "kafka/coordinator/transaction/TransactionStateManager.scala",
        (
            Edit(
                "def loadTransactions(startTimeMs:",
                "inWriteLock[Exception](stateLock, () => {",
                """val loadedTo = replicaManager.getLogEndOffset(topicPartition).getOrElse(-1L)
      def finishWhenCommitted(): Unit = {
        val committed = replicaManager.getLog(topicPartition).exists(_.highWatermark >= loadedTo)
        val awaited = inReadLock(stateLock, () =>
          loadingPartitions.contains(partitionAndLeaderEpoch))
        if (committed || !awaited || shuttingDown.get()) finishLoading(loadedTransactions)
        else scheduler.scheduleOnce("finish-loading", () => finishWhenCommitted(), 10L)
      }
      finishWhenCommitted()
    }

    def finishLoading(loadedTransactions: ConcurrentMap[String, TransactionMetadata]): Unit = {
      inWriteLock[Exception](stateLock, () => {""",
            ),
        ),
    ),
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


def fetched(folder: Path, *artifacts: str) -> None:
    """Let Maven copy these artifacts into a folder."""
    if shutil.which("mvn") is None:
        raise NoMavenError
    pom = folder / "pom.xml"
    folder.mkdir(parents=True, exist_ok=True)
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>highwater</groupId><artifactId>fixes</artifactId><version>1</version></project>"
    )
    for one in artifacts:
        command = ("mvn", "-q", "-B", "-f", pom, "dependency:copy", f"-Dartifact={one}")
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True)


def edited(source: str, edits: tuple[Edit, ...]) -> str:
    """The source with its changes; raises ValueError where one does not fit."""
    for edit in edits:
        at = source.index(edit.old, source.index(edit.after))
        source = source[:at] + edit.new + source[at + len(edit.old) :]
    return source


def compiled(fix: Fix, folder: Path) -> None:
    """Put the changed class, and those inside it, into the folder."""
    libraries = f"{jars().resolve()}/*"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        fetched(work, f"org.apache.kafka:{fix.artifact}:{KAFKA}:jar:sources")
        with zipfile.ZipFile(work / f"{fix.artifact}-{KAFKA}-sources.jar") as sources:
            source = sources.read(fix.path).decode()
        path = work / Path(fix.path).name
        path.write_text(edited(source, fix.edits))
        folder.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".java":
            command = ["javac", "-nowarn", "-proc:none", "-cp", f"{folder}{os.pathsep}{libraries}"]
            command += ["-d", folder, path]
        else:
            fetched(work / "scala", *(f"org.scala-lang:{one}:{SCALA}" for one in COMPILER))
            scalac = ["java", "-cp", f"{work / 'scala'}/*", "scala.tools.nsc.Main", "-nowarn"]
            command = [*scalac, "-release", "17", "-cp", libraries, "-d", folder, path]
        subprocess.run(command, check=True)
    if fix.more is not None:
        compiled(fix.more, folder)


@click.command(help=__doc__)
@click.argument("fix", type=click.Choice(sorted(FIXES)))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(fix: str, folder: Path) -> None:
    try:
        compiled(FIXES[fix], folder)
    except NoMavenError as missing:
        click.echo(str(missing), err=True)
        sys.exit(2)
    except (ValueError, KeyError, subprocess.CalledProcessError) as failed:
        click.echo(f"the fix {fix} does not fit the source of Kafka {KAFKA}: {failed}", err=True)
        sys.exit(2)
    click.echo(f"compiled into {folder}; play the example with --classes {folder}")


if __name__ == "__main__":
    main()
