package highwater.recorder;

import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;

/** The choices of an application about the recording of one client. */
public final class Options {
  private static final Set<String> ORDERS =
      Set.of("process_then_commit", "commit_then_process", "transaction", "auto", "none");

  final String name;
  final String commitOrder;
  final boolean hashes;
  final Function<Message, Object> id;
  final int window;

  private Options(
      String name, String commitOrder, boolean hashes, Function<Message, Object> id, int window) {
    this.name = name;
    this.commitOrder = commitOrder;
    this.hashes = hashes;
    this.id = id;
    this.window = window;
  }

  /**
   * A recording under this name; its incarnations are {@code name#0}, {@code name#1}, …
   *
   * @param name the client's name in the trace, which becomes part of a file's name
   * @return the options of that recording
   */
  public static Options named(String name) {
    Objects.requireNonNull(name, "name");
    if (name.isEmpty() || name.matches(".*[/\\\\\\p{Cntrl}#].*") || name.startsWith(".")) {
      throw new IllegalArgumentException(
          "name: expected text without /, \\ and # that begins with no dot, found \"" + name + "\"");
    }
    return new Options(name, null, false, null, Journal.WINDOW);
  }

  /**
   * The habit of a consumer's application, which the client cannot know.
   *
   * @param order {@code process_then_commit}, {@code commit_then_process}, {@code transaction}
   *     where its offsets go with the outputs, {@code auto} or {@code none}
   * @return these options and that one
   */
  public Options commitOrder(String order) {
    if (!ORDERS.contains(String.valueOf(order))) {
      throw new IllegalArgumentException(
          "commitOrder: expected one of " + String.join(", ", new TreeSet<>(ORDERS))
              + ", found \"" + order + "\"");
    }
    return new Options(name, order, hashes, id, window);
  }

  /**
   * A hash of each message's key, value and headers, where they are bytes or text.
   *
   * @return these options and that one
   */
  public Options hashes() {
    return new Options(name, commitOrder, true, id, window);
  }

  /**
   * The application's own id of a message; without it every message sent gets one in a header.
   *
   * @param id finds the id of a message: a number, text, or null where there is none
   * @return these options and that one
   */
  public Options id(Function<Message, Object> id) {
    return new Options(name, commitOrder, hashes, Objects.requireNonNull(id, "id"), window);
  }

  /** True if what is hashed here is what goes out: other interceptors may change it on the way. */
  boolean hashed(Settings settings, int ours) {
    return hashes && settings.interceptors() <= ours;
  }

  /** The size that the journal reserves at a time: small, for tests. */
  Options window(int bytes) {
    return new Options(name, commitOrder, hashes, id, bytes);
  }
}
