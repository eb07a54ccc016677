package highwater.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The file of one node. Each line is one write to the operating system, which has it before anybody can see the effect of the step: a
 * SIGKILL loses nothing. Lines bear the monotonic clock of the host, which its processes share, and are counted, so that a lost one shows.
 */
final class Journal {
  private static FileOutputStream out;
  private static long node;
  private static long written;
  private static boolean failed;

  private Journal() {}

  static void open(Path folder, long node) throws IOException {
    Files.createDirectories(folder);
    Journal.node = node;
    out = new FileOutputStream(folder.resolve("node-" + node + ".steps.ndjson").toFile(), true);
  }

  static synchronized void write(Line line) {
    String text =
        "{\"t\":" + System.nanoTime() + ",\"n\":" + written++ + ",\"node\":" + node + "," + line + "}\n";
    try {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    } catch (IOException lost) {
      if (!failed) System.err.println("highwater-agent: lines are lost: " + lost.getMessage());
      failed = true;
    }
  }

  static synchronized long lines() {
    return written;
  }

  /** The agent itself failed: a run with such a line is not judged. */
  static void problem(String where, Throwable wrong) {
    write(new Line("problem").with("where", where).with("what", String.valueOf(wrong)));
  }
}
