"""Fixes of transactions, and of producers and consumers that write and commit once."""

from examples.fixes.edits import CORE, METADATA, Edit, Fix

PRODUCERS = "org/apache/kafka/clients/producer/internals/"

FIXES = {
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
}
