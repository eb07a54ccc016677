import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing array of int, and how such arrays are written behind a text. */
final class Ints {
  private int[] data = new int[1 << 12];
  int size;

  void add(int value) {
    if (size == data.length) data = Arrays.copyOf(data, 2 * size);
    data[size++] = value;
  }

  int get(int index) {
    return data[index];
  }

  boolean equal(int from, int[] wanted) {
    return Arrays.equals(data, from, from + wanted.length, wanted, 0, wanted.length);
  }

  /**
   * Writes a file, all integers being 32 bits little-endian: the length of the text in bytes and of each
   * array in integers, the text in UTF-8, the arrays.
   */
  static void write(String out, String text, Ints... arrays) throws IOException {
    byte[] head = text.getBytes(StandardCharsets.UTF_8);
    try (DataOutputStream file =
        new DataOutputStream(new BufferedOutputStream(new FileOutputStream(out), 1 << 20))) {
      file.writeInt(Integer.reverseBytes(head.length));
      for (Ints array : arrays) file.writeInt(Integer.reverseBytes(array.size));
      file.write(head);
      for (Ints array : arrays) array.write(file);
    }
  }

  private void write(DataOutputStream file) throws IOException {
    ByteBuffer chunk = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < size; i++) {
      chunk.putInt(data[i]);
      if (!chunk.hasRemaining() || i + 1 == size) {
        file.write(chunk.array(), 0, chunk.position());
        chunk.clear();
      }
    }
  }
}
