package highwater.recorder;

import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The handling of records by the application, beside the last poll that gave some. */
final class Handling {
  private final Recording recording;
  private final String grouped;
  private volatile Polled last = new Polled(-1, null, null);

  private static final class Polled {
    final long seq;
    final Object records;
    final Thread by;

    Polled(long seq, Object records, Thread by) {
      this.seq = seq;
      this.records = records;
      this.by = by;
    }
  }

  Handling(Recording recording, String grouped) {
    this.recording = recording;
    this.grouped = grouped;
  }

  /** This thread was given records. */
  void polled(long seq, Object records) {
    last = new Polled(seq, records, Thread.currentThread());
  }

  /** The application is done with records. */
  void note(Iterable<? extends ConsumerRecord<?, ?>> records, Polls polls, long invoked) {
    if (!records.iterator().hasNext()) {
      return;
    }
    Polled polled = last;
    recording.note("process", invoked, line -> {
      // Nothing is written twice: settling puts in the records of that poll.
      if (records == polled.records) {
        line.put("records_of", polled.seq);
      } else {
        line.json("records", polls.spelt(records));
      }
      by(line);
      line.fields(grouped);
    });
  }

  /** The order of two calls says nothing where two threads made them. */
  void by(Line line) {
    Thread poller = last.by;
    if (poller != null && poller != Thread.currentThread()) {
      line.put("other_thread", true);
    }
  }
}
