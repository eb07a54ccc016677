package highwater.recorder;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Base64;

/** Writes journals, one after the other, by the commands on its input; answers each it does not know. */
final class Journals {
  private Journals() {}

  public static void main(String[] given) throws IOException {
    Journal journal = new Journal(Path.of(given[0]), Integer.parseInt(given[1]));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ", -1);
      switch (words[0]) {
        case "open":
          journal = new Journal(Path.of(words[1]), Integer.parseInt(given[1]));
          break;
        case "line":
          journal.line(raw(words[1]));
          break;
        case "send":
          byte[] key = words[4].equals("-") ? null : raw(words[4]);
          journal.send(Integer.parseInt(words[1]), number(words[2]), number(words[3]), key, number(words[5]));
          break;
        case "report":
          journal.report(number(words[1]), number(words[2]), number(words[3]), number(words[4]), number(words[5]));
          break;
        case "poll":
          journal.poll(buffer(raw(words[1])), buffer(raw(words[2])));
          break;
        case "interrupt":
          Thread.currentThread().interrupt();
          break;
        case "clock":
          System.out.println(Clock.now() + " " + Clock.DOMAIN);
          break;
        case "close":
          journal.close();
          break;
        default:
          System.out.println("done");
      }
    }
  }

  private static long number(String text) {
    return Long.parseLong(text);
  }

  private static byte[] raw(String text) {
    return text.equals(".") ? new byte[0] : Base64.getDecoder().decode(text);
  }

  private static ByteBuffer buffer(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(LITTLE_ENDIAN);
  }
}
