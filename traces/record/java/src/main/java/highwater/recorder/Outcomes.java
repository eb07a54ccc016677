package highwater.recorder;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.protocol.Errors;

/**
 * The errors that are a certain <em>no</em>: {@code fail}; all others are {@code info}.
 *
 * <p>The tables are those of {@code traces/record/errors.py}. What the Java client does besides: it
 * answers a commit with the error of one partition although others were committed, and a producer
 * with transactions may raise after the record was put into a batch.
 */
final class Outcomes {
  static final String OK = "ok";
  static final String FAIL = "fail";
  static final String INFO = "info";

  /** Refused for what the record is: an earlier attempt was refused as well. */
  private static final Set<Errors> REFUSED_RECORD =
      EnumSet.of(
          Errors.MESSAGE_TOO_LARGE,
          Errors.RECORD_LIST_TOO_LARGE,
          Errors.INVALID_TIMESTAMP,
          Errors.INVALID_RECORD,
          Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
          Errors.UNSUPPORTED_COMPRESSION_TYPE,
          Errors.INVALID_TOPIC_EXCEPTION);

  /** Refused before the write: certain of the only attempt. */
  private static final Set<Errors> REFUSED_ATTEMPT =
      EnumSet.of(
          Errors.UNKNOWN_TOPIC_OR_PARTITION,
          Errors.LEADER_NOT_AVAILABLE,
          Errors.NOT_LEADER_OR_FOLLOWER,
          Errors.NOT_ENOUGH_REPLICAS,
          Errors.INVALID_REQUIRED_ACKS,
          Errors.TOPIC_AUTHORIZATION_FAILED,
          Errors.CLUSTER_AUTHORIZATION_FAILED,
          Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
          Errors.POLICY_VIOLATION,
          Errors.CORRUPT_MESSAGE);

  /** Refused by the group's coordinator as a whole. */
  private static final Set<Errors> REFUSED_COMMIT =
      EnumSet.of(
          Errors.ILLEGAL_GENERATION,
          Errors.INVALID_GROUP_ID,
          Errors.UNKNOWN_MEMBER_ID,
          Errors.REBALANCE_IN_PROGRESS,
          Errors.GROUP_AUTHORIZATION_FAILED,
          Errors.FENCED_INSTANCE_ID,
          Errors.FENCED_MEMBER_EPOCH,
          Errors.STALE_MEMBER_EPOCH);

  /** Refused of one partition; the client does not report what became of the others. */
  private static final Set<Errors> REFUSED_PARTITION =
      EnumSet.of(Errors.OFFSET_METADATA_TOO_LARGE, Errors.INVALID_COMMIT_OFFSET_SIZE);

  private Outcomes() {}

  /** The outcome of a record by the error in the report of its send. */
  static String ofReport(Throwable error, int retries) {
    Errors known = Words.known(error);
    boolean refused = REFUSED_RECORD.contains(known);
    return refused || retries == 0 && REFUSED_ATTEMPT.contains(known) ? FAIL : INFO;
  }

  /**
   * The outcome of a record whose send raised or answered in the call itself.
   *
   * <p>A producer with idempotence checks its own state when the record lies in a batch already. So
   * only errors are certain that come before that, under whatever name it has for others.
   */
  static String ofCall(Throwable error, boolean idempotent) {
    boolean before =
        error instanceof SerializationException
            || error instanceof RecordTooLargeException
            || error instanceof InvalidTopicException
            || error instanceof TopicAuthorizationException
            || error instanceof TimeoutException
            || error instanceof InterruptException
            || error instanceof ClassCastException
            || error instanceof IllegalArgumentException;
    return before || !idempotent && error instanceof Exception ? FAIL : INFO;
  }

  /** The outcome of offsets by the error of their commit, which is certain of a first attempt. */
  static String ofCommit(
      Throwable error, Map<TopicPartition, OffsetAndMetadata> offsets, long took, long firstAttempt) {
    if (took >= firstAttempt) {
      return INFO;
    }
    Errors known = Words.known(error);
    boolean refused = error instanceof CommitFailedException || REFUSED_COMMIT.contains(known);
    boolean one = offsets != null && offsets.size() == 1;
    boolean alone = REFUSED_PARTITION.contains(known) || known == Errors.TOPIC_AUTHORIZATION_FAILED;
    return refused || one && alone ? FAIL : INFO;
  }
}
