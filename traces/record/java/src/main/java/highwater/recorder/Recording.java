package highwater.recorder;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * One process of a run: its program, call by call, in its journal.
 *
 * <p>A call is written down when it is made and when it is answered; one without an answer becomes
 * {@code info}. Threads take the time of a call before its place, and that of an answer behind it.
 */
final class Recording {
  /** Of the 63 bits of an id, so many count the messages of one process. */
  private static final int COUNTER_BITS = 33;

  /** A call without more fields. */
  static final Consumer<Line> NOTHING = line -> {};

  private static final long LOST = -1;
  private static final String[] TAKEN = {".journal", ".ndjson", ".ndjson.gz", ".parquet"};

  final String name;
  final Journal journal;
  final long firstId;
  private final AtomicLong seqs = new AtomicLong();
  private final AtomicInteger contexts = new AtomicInteger();
  private final AtomicBoolean ended = new AtomicBoolean();

  private Recording(String name, Journal journal, long firstId) {
    this.name = name;
    this.journal = journal;
    this.firstId = firstId;
  }

  /** Opens the next incarnation of a client: {@code p0#0}, after a restart {@code p0#1}. */
  static Recording open(Path run, String client, Line about, boolean ownIds, int window)
      throws IOException {
    Files.createDirectories(run);
    for (int number = 0; ; number++) {
      String name = client + "#" + number;
      if (taken(run, name)) {
        continue;
      }
      try {
        Journal journal = new Journal(run.resolve(name + ".journal"), window);
        long process = new SecureRandom().nextInt(1 << (63 - COUNTER_BITS));
        Recording made = new Recording(name, journal, process << COUNTER_BITS);
        made.begin(about, ownIds);
        return made;
      } catch (FileAlreadyExistsException another) {
        continue;
      }
    }
  }

  private static boolean taken(Path run, String name) {
    for (String suffix : TAKEN) {
      if (Files.exists(run.resolve(name + suffix))) {
        return true;
      }
    }
    return false;
  }

  private void begin(Line about, boolean ownIds) {
    Line head = new Line().put("journal", 2).put("process", name).put("clock", Clock.DOMAIN);
    if (ownIds) {
      head.json("ids", "null");
    } else {
      head.put("ids", firstId);
    }
    write(head.fields(about.members()));
  }

  long next() {
    return seqs.getAndIncrement();
  }

  /** True if a call with this place was made. */
  boolean knows(long seq) {
    return seq < seqs.get();
  }

  /** A number for what several entries share; 0 is none. */
  int nextContext() {
    return contexts.incrementAndGet();
  }

  /** Writes down a call that is being made, before the client is called; returns its place. */
  long call(String op, Consumer<Line> about) {
    long invoked = Clock.now();
    Line line = new Line(next()).put("op", op).put("invoked_ns", invoked);
    return filled(line, about) ? line.seq : LOST;
  }

  /** Writes down the answer to a call. */
  void answer(long seq, String outcome, Consumer<Line> about) {
    if (seq != LOST) {
      filled(new Line(seq).put("outcome", outcome).put("returned_ns", Clock.now()), about);
    }
  }

  /** Writes down a call that has returned well. */
  void note(String op, long invoked, Consumer<Line> about) {
    Line line = new Line(next()).put("op", op).put("outcome", "ok");
    filled(line.put("invoked_ns", invoked).put("returned_ns", Clock.now()), about);
  }

  private boolean filled(Line line, Consumer<Line> about) {
    try {
      about.accept(line);
      write(line);
      return true;
    } catch (RuntimeException | Error mistake) {
      broken(mistake);
      return false;
    }
  }

  void write(Line line) {
    journal.line(line.bytes());
  }

  /** Writes the last line, unless it is there. */
  void end(String how, long invoked) {
    if (ended.compareAndSet(false, true)) {
      note(how, invoked, NOTHING);
      journal.close();
    }
  }

  /** Leaves nothing of a recording whose client was never made. */
  void discard() {
    ended.set(true);
    journal.close();
    try {
      Files.deleteIfExists(journal.path);
    } catch (IOException stays) {
      broken(stays);
    }
  }

  /** Stops after a mistake of the recorder, which is none of the application's. */
  void broken(Throwable mistake) {
    journal.stop(mistake);
  }
}
