package highwater.recorder;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The handling of records by the application, from here until it is {@link #done}.
 *
 * <pre>{@code
 * try (var work = consumer.process(records)) {
 *     handle(records);
 *     work.done();
 * }
 * }</pre>
 *
 * <p>Java does not tell {@code close} whether the block has thrown: without {@code done} the records
 * count as not processed.
 */
public final class Processing implements AutoCloseable {
  private static final AtomicBoolean WARNED = new AtomicBoolean();
  private static final System.Logger LOG = System.getLogger(Processing.class.getName());

  private final Runnable note;
  private boolean done;

  Processing(Runnable note) {
    this.note = note;
  }

  /** The records are processed. */
  public void done() {
    if (!done) {
      done = true;
      note.run();
    }
  }

  @Override
  public void close() {
    if (!done && WARNED.compareAndSet(false, true)) {
      LOG.log(Level.WARNING, "records count as not processed: close() without done()");
    }
  }
}
