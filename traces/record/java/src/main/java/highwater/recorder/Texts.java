package highwater.recorder;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;

/** Bytes as text, in which what is no UTF-8 stays legible: {@code \xff}. */
final class Texts {
  private Texts() {}

  static String of(byte[] bytes) {
    CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
    ByteBuffer in = ByteBuffer.wrap(bytes);
    CharBuffer out = CharBuffer.allocate(4 * bytes.length);
    while (true) {
      CoderResult found = decoder.decode(in, out, true);
      if (!found.isError()) {
        return out.flip().toString();
      }
      for (int left = found.length(); left > 0; left--) {
        out.put(String.format("\\x%02x", in.get() & 0xff));
      }
    }
  }
}
