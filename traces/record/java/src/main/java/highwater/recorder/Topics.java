package highwater.recorder;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Uuid;

/**
 * The topics that a client uses: their ids, and of a producer how many partitions it knows of.
 *
 * <p>Both stand in the client's metadata; nobody is asked. An id is as old as the metadata, so the
 * line tells when that came. A wall clock that was set meanwhile leaves the ids unknown.
 */
final class Topics {
  private static final long SECOND = 1_000_000_000;
  private static final long MS = 1_000_000;

  private final Recording recording;
  private final Inside inside;
  private final boolean counts;
  private final Map<String, Known> known = new ConcurrentHashMap<>();
  private final long beganWall = System.currentTimeMillis();
  private final long began = Clock.now();

  private static final class Known {
    volatile long looked = Long.MIN_VALUE;
    int partitions;
    boolean hasId;
  }

  Topics(Recording recording, Inside inside, boolean counts) {
    this.recording = recording;
    this.inside = inside;
    this.counts = counts;
  }

  /** The client has used a topic, so its metadata knows it; looked up once a second at most. */
  void used(String topic, long now) {
    Known topics = known.get(topic);
    if (topics == null) {
      topics = known.computeIfAbsent(topic, unknown -> new Known());
    }
    if (topics.hasId && !counts || topics.looked != Long.MIN_VALUE && now - topics.looked < SECOND) {
      return;
    }
    synchronized (topics) {
      topics.looked = now;
      look(topic, topics, now);
    }
  }

  private void look(String topic, Known topics, long now) {
    if (!topics.hasId) {
      topics.hasId = noteIds(List.of(topic));
    }
    Cluster cluster = counts ? inside.cluster() : null;
    Integer count = cluster == null ? null : cluster.partitionCountForTopic(topic);
    if (count != null && count != topics.partitions) {
      topics.partitions = count;
      Map<String, Long> counted = Map.of(topic, count.longValue());
      recording.note("metadata", now, line -> line.numbers("partition_counts", counted));
    }
  }

  /** The client leaves. */
  void leave() {
    if (!known.isEmpty()) {
      noteIds(known.keySet());
    }
  }

  private boolean noteIds(Collection<String> topics) {
    long since = since();
    Cluster cluster = since < 0 ? null : inside.cluster();
    if (cluster == null) {
      return false;
    }
    Map<String, String> ids = new TreeMap<>();
    for (String topic : topics) {
      Uuid id = cluster.topicId(topic);
      if (id != null && !id.equals(Uuid.ZERO_UUID)) {
        ids.put(topic, id.toString());
      }
    }
    if (!ids.isEmpty()) {
      recording.note("describe_topics", since,
          line -> line.texts("topics", ids.keySet()).texts("topic_ids", ids));
    }
    return !ids.isEmpty();
  }

  /** The time at which the metadata came, by our clock, and rather too early; -1 if it is unknown. */
  private long since() {
    long learnt = inside.learntAt();
    long wall = System.currentTimeMillis();
    long now = Clock.now();
    long age = (wall - learnt) * MS;
    long drift = Math.abs((wall - beganWall) * MS - (now - began));
    boolean wasSet = drift > SECOND / 10 + (now - began) / 1000;
    return learnt <= 0 || age < 0 || wasSet ? -1 : Math.max(0, now - age - age / 500 - 2 * MS);
  }
}
