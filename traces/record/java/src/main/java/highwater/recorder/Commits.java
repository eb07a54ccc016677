package highwater.recorder;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.common.TopicPartition;

/** The commits of one consumer: those that the application asks for, and those of its own accord. */
final class Commits {
  private static final System.Logger LOG = System.getLogger(Commits.class.getName());

  private final Recording recording;
  private final long firstAttempt;
  /** Commits of the application that no interceptor has reported yet. */
  private final List<Asked> asked = new ArrayList<>();

  private static final class Asked {
    final long seq;
    final long invoked;
    final Map<TopicPartition, OffsetAndMetadata> offsets;

    Asked(long seq, long invoked, Map<TopicPartition, OffsetAndMetadata> offsets) {
      this.seq = seq;
      this.invoked = invoked;
      this.offsets = offsets;
    }
  }

  Commits(Recording recording, Settings settings) {
    this.recording = recording;
    this.firstAttempt = settings.firstAttempt();
  }

  /** A commit that waits; of {@code offsets} nobody may know. */
  void sync(Map<TopicPartition, OffsetAndMetadata> offsets, Consumer<Line> about, Runnable call) {
    if (offsets != null && offsets.isEmpty()) {
      call.run();
      return;
    }
    Asked mine = ask(offsets, about);
    try {
      call.run();
    } catch (RuntimeException | Error refusal) {
      refused(mine, offsets, refusal);
      throw refusal;
    } finally {
      forget(mine);
    }
    recording.answer(mine.seq, Outcomes.OK, Recording.NOTHING);
  }

  /** A commit whose answer comes later, with the callback that {@code call} is given. */
  void async(
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Consumer<Line> about,
      OffsetCommitCallback users,
      Consumer<OffsetCommitCallback> call) {
    if (offsets != null && offsets.isEmpty()) {
      call.accept(users);
      return;
    }
    Asked mine = ask(offsets, about);
    try {
      call.accept((committed, error) -> answered(mine, committed, error, users));
    } catch (RuntimeException | Error refusal) {
      refused(mine, offsets, refusal);
      forget(mine);
      throw refusal;
    }
  }

  private Asked ask(Map<TopicPartition, OffsetAndMetadata> offsets, Consumer<Line> about) {
    long invoked = Clock.now();
    long seq = recording.call("commit", line -> {
      if (offsets != null) {
        line.offsets(offsets);
      }
      about.accept(line);
    });
    Asked mine = new Asked(seq, invoked, offsets);
    asked.add(mine);
    return mine;
  }

  private void answered(
      Asked mine,
      Map<TopicPartition, OffsetAndMetadata> committed,
      Exception error,
      OffsetCommitCallback users) {
    forget(mine);
    if (error != null) {
      refused(mine, mine.offsets == null ? committed : mine.offsets, error);
    } else {
      recording.answer(mine.seq, Outcomes.OK, line -> {
        if (committed != null) {
          line.offsets(committed);
        }
      });
    }
    if (users != null) {
      users.onComplete(committed, error);
    } else if (error != null) {
      // As the client does of its own accord for a commit without a callback.
      LOG.log(System.Logger.Level.ERROR, "Offset commit with offsets " + committed + " failed", error);
    }
  }

  private void refused(Asked mine, Map<TopicPartition, OffsetAndMetadata> offsets, Throwable error) {
    String outcome = Outcomes.ofCommit(error, offsets, Clock.now() - mine.invoked, firstAttempt);
    recording.answer(mine.seq, outcome, line -> line.put("error", Words.error(error)));
  }

  private void forget(Asked mine) {
    asked.removeIf(one -> one == mine);
  }

  /** An interceptor reports a commit that was taken: the application's, or the client's own. */
  void taken(Map<TopicPartition, OffsetAndMetadata> offsets, Consumer<Line> about) {
    if (offsets.isEmpty()) {
      return;
    }
    for (Asked one : asked) {
      if (one.offsets == null || one.offsets.equals(offsets)) {
        forget(one);
        return;
      }
    }
    long seq = recording.call("commit", line -> about.accept(line.put("auto", true).offsets(offsets)));
    recording.answer(seq, Outcomes.OK, Recording.NOTHING);
  }
}
