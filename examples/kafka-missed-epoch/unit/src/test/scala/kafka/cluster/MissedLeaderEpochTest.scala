package kafka.cluster

import org.apache.kafka.common.compress.Compression
import org.apache.kafka.common.record.internal.{MemoryRecords, SimpleRecord}
import org.apache.kafka.common.requests.FetchRequest
import org.apache.kafka.metadata.{LeaderRecoveryState, PartitionRegistration}
import org.apache.kafka.common.DirectoryId
import org.apache.kafka.server.common.RequestLocal
import org.apache.kafka.server.storage.log.{FetchIsolation, FetchParams}
import org.apache.kafka.storage.internals.log.AppendOrigin
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import java.util.Optional

/**
 * Broker 101 leads in epochs 1 and 3. In epoch 2 broker 103 led, which lacked the record, so 102 cut it.
 * What 102 had told in epoch 1 must not commit the record in epoch 3.
 */
class MissedLeaderEpochTest extends AbstractPartitionTest {
  private val leader = brokerId
  private val follower = brokerId + 1
  private val other = brokerId + 2
  private val replicas = Array(other, leader, follower)

  @Test
  def missesTheEpochBetween(): Unit = {
    leadInEpochOne()
    lead(epoch = 3, isr = Array(leader, follower))
    assertEquals(0L, partition.localLogOrException.highWatermark, "committed a record that 102 no longer has")
  }

  @Test
  def isToldOfTheEpochBetween(): Unit = {
    leadInEpochOne()
    partition.makeFollower(registration(other, 2, replicas), isNew = false, offsetCheckpoints, None)
    lead(epoch = 3, isr = Array(leader, follower))
    assertEquals(0L, partition.localLogOrException.highWatermark)
  }

  private def leadInEpochOne(): Unit = {
    lead(epoch = 1, isr = replicas)
    fetch(other, offset = 0L)
    val record = MemoryRecords.withRecords(0L, Compression.NONE, 1, new SimpleRecord("B".getBytes))
    partition.appendRecordsToLeader(record, AppendOrigin.CLIENT, requiredAcks = -1, RequestLocal.withThreadConfinedCaching)
    fetch(follower, offset = 0L)
    fetch(follower, offset = 1L)
    assertEquals(0L, partition.localLogOrException.highWatermark)
  }

  private def lead(epoch: Int, isr: Array[Int]): Unit =
    partition.makeLeader(registration(leader, epoch, isr), isNew = epoch == 1, offsetCheckpoints, None)

  private def registration(leads: Int, epoch: Int, isr: Array[Int]): PartitionRegistration =
    new PartitionRegistration.Builder()
      .setLeader(leads)
      .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED)
      .setLeaderEpoch(epoch)
      .setPartitionEpoch(epoch)
      .setIsr(isr)
      .setReplicas(replicas)
      .setDirectories(DirectoryId.unassignedArray(replicas.length))
      .build()

  private def fetch(replica: Int, offset: Long): Unit =
    partition.fetchRecords(
      new FetchParams(replica, defaultBrokerEpoch(replica), 0L, 1, Int.MaxValue, FetchIsolation.LOG_END, Optional.empty()),
      new FetchRequest.PartitionData(topicId.get, offset, 0L, Int.MaxValue, Optional.of(1), Optional.empty[Integer]),
      time.milliseconds(), Int.MaxValue, minOneMessage = true, updateFetchState = true)
}
