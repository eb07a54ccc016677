package highwater.recorder;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.System.Logger.Level;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.ReentrantLock;
import java.util.zip.CRC32;

/**
 * The journal of one process: memory that is mapped into a file, and outlives the JVM.
 *
 * <p>Its entries are those of {@code traces/record/entries.py}. An entry costs no system call; it is
 * safe once it is copied, for its checksum is written last. The file is locked while the JVM lives.
 */
final class Journal {
  /** The size that is mapped at a time. */
  static final int WINDOW = 4 << 20;

  private static final System.Logger LOG = System.getLogger(Journal.class.getName());
  private static final int MARK = tag("JRN2");
  private static final int STOPPED = tag("HALT");
  private static final int LINE = tag("LINE");
  private static final int SENT = tag("SEND");
  private static final int KEYED = tag("SKEY");
  private static final int REPORTED = tag("REPT");
  private static final int POLLED = tag("POLL");
  private static final int FILLED = tag("FILL");
  private static final int FILL_SIZE = 12;
  private static final int SUM = 4;
  /** Kept free at the end of every window, for the entry that leads to the next one. */
  private static final int ROOM = FILL_SIZE + 8;
  private static final int USUAL_ENTRY = 64 << 10;
  private static final byte[] ZEROS = new byte[64 << 10];

  final Path path;
  private final int window;
  private final ReentrantLock lock = new ReentrantLock();
  private final CRC32 crc = new CRC32();
  private ByteBuffer entry = ByteBuffer.allocate(4096).order(LITTLE_ENDIAN);
  private RandomAccessFile file;
  private MappedByteBuffer map;
  private long start;
  private int size;
  private int limit;
  private int at;

  /** Creates the file; throws FileAlreadyExistsException where there is one. */
  Journal(Path path, int window) throws IOException {
    this.path = path;
    this.window = window;
    Files.createFile(path);
    file = new RandomAccessFile(path.toFile(), "rw");
    if (file.getChannel().tryLock() == null) {
      file.close();
      throw new IOException(path + " is locked by another process");
    }
  }

  /** Adds a line of JSON. */
  void line(byte[] json) {
    lock.lock();
    try {
      begin(json.length).put(json);
      end(LINE);
    } catch (RuntimeException | Error broken) {
      stop(broken);
    } finally {
      lock.unlock();
    }
  }

  /** Adds a send: which context it is made in, and the key where there is one. */
  void send(int context, long seq, long id, byte[] key, long invoked) {
    lock.lock();
    try {
      begin(28 + (key == null ? 0 : key.length));
      entry.putInt(context).putLong(seq).putLong(invoked).putLong(id);
      if (key != null) {
        entry.put(key);
      }
      end(key == null ? SENT : KEYED);
    } catch (RuntimeException | Error broken) {
      stop(broken);
    } finally {
      lock.unlock();
    }
  }

  /** Adds an acknowledgement. */
  void report(long seq, long partition, long offset, long timestamp, long returned) {
    lock.lock();
    try {
      begin(40).putLong(returned);
      entry.putLong(seq).putLong(partition).putLong(offset).putLong(timestamp);
      end(REPORTED);
    } catch (RuntimeException | Error broken) {
      stop(broken);
    } finally {
      lock.unlock();
    }
  }

  /** Adds a poll: its numbers, then its keys. */
  void poll(ByteBuffer numbers, ByteBuffer keys) {
    lock.lock();
    try {
      begin(numbers.remaining() + keys.remaining()).put(numbers).put(keys);
      end(POLLED);
    } catch (RuntimeException | Error broken) {
      stop(broken);
    } finally {
      lock.unlock();
    }
  }

  /** Lets go of the file, without the space that was reserved behind its last entry. */
  void close() {
    lock.lock();
    try {
      if (map != null) {
        file.setLength(start + at + SUM);
      }
      letGo();
    } catch (IOException | RuntimeException unfinished) {
      stop(unfinished);
    } finally {
      lock.unlock();
    }
  }

  /** Stops the recording and says why; the application goes on. */
  void stop(Throwable reason) {
    lock.lock();
    try {
      if (file == null) {
        return;
      }
      file.seek(0);
      file.write(bytes(STOPPED));
      letGo();
      LOG.log(Level.WARNING, path.getFileName() + ": recording has stopped: " + said(reason));
    } catch (IOException | RuntimeException ignored) {
      abandon();
    } finally {
      lock.unlock();
    }
  }

  private static String said(Throwable reason) {
    boolean plain = reason instanceof IOException && reason.getMessage() != null;
    return plain ? reason.getMessage() : reason.toString();
  }

  private ByteBuffer begin(int body) {
    int needed = stretch(body);
    if (needed > entry.capacity()) {
      entry = ByteBuffer.allocate(Math.max(needed, 2 * entry.capacity())).order(LITTLE_ENDIAN);
    }
    return entry.clear().putInt(body);
  }

  private static int stretch(int body) {
    return 12 + body + ((4 - body) & 7);
  }

  private void end(int tag) {
    if (file == null) {
      return;
    }
    for (int zeros = (4 - (entry.position() - 4)) & 7; zeros > 0; zeros--) {
      entry.put((byte) 0);
    }
    entry.putInt(tag);
    int length = SUM + entry.position();
    if (at + length <= limit) {
      at = write(map, at);
    } else {
      putInNextWindow(length);
    }
    if (entry.capacity() > USUAL_ENTRY) {
      entry = ByteBuffer.allocate(4096).order(LITTLE_ENDIAN);
    }
  }

  /** The checksum comes when all else is there: an entry that begins with nothing is none. */
  private int write(MappedByteBuffer window, int where) {
    int length = entry.position();
    crc.reset();
    crc.update(entry.array(), 0, length);
    int found = (int) crc.getValue();
    window.position(where + SUM);
    window.put(entry.array(), 0, length);
    VarHandle.releaseFence();
    window.putInt(where, found == 0 ? 1 : found);
    return where + SUM + length;
  }

  private void putInNextWindow(int length) {
    MappedByteBuffer before = map;
    int end = at;
    int left = size - at - SUM - FILL_SIZE;
    if (!mapNext(length)) {
      return;
    }
    at = write(map, at);
    if (before != null) {
      entry.clear().putInt(4).putInt(left).putInt(FILLED);
      write(before, end);
    }
  }

  /** In a thread of its own: a channel closes, and its lock is gone, if its caller is interrupted. */
  private boolean mapNext(int least) {
    Throwable[] failure = new Throwable[1];
    Thread thread = new Thread(() -> {
      try {
        reserve(least);
      } catch (IOException | RuntimeException | Error broken) {
        failure[0] = broken;
      }
    }, "highwater-recorder");
    thread.setDaemon(true);
    thread.start();
    joined(thread);
    if (failure[0] != null) {
      stop(failure[0]);
    }
    return failure[0] == null;
  }

  private static void joined(Thread thread) {
    boolean interrupted = false;
    while (true) {
      try {
        thread.join();
        break;
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Written before it is mapped: a full disk is an exception here, and would be a signal later. */
  private void reserve(int least) throws IOException {
    long next = start + size;
    int room = Math.toIntExact(((4L + least + ROOM + window - 1) / window) * window);
    try {
      file.seek(next);
      for (int done = 0; done < room; done += ZEROS.length) {
        file.write(ZEROS, 0, Math.min(ZEROS.length, room - done));
      }
    } catch (IOException full) {
      file.setLength(next);
      throw full;
    }
    MappedByteBuffer following = file.getChannel().map(MapMode.READ_WRITE, next, room);
    following.order(LITTLE_ENDIAN).putInt(0, MARK);
    map = following;
    start = next;
    size = room;
    at = 4;
    limit = room - ROOM;
  }

  private void letGo() throws IOException {
    RandomAccessFile held = file;
    abandon();
    if (held != null) {
      held.close();
    }
  }

  private void abandon() {
    file = null;
    map = null;
    limit = 0;
  }

  private static int tag(String letters) {
    int tag = 0;
    for (int i = 3; i >= 0; i--) {
      tag = tag << 8 | letters.charAt(i);
    }
    return tag;
  }

  private static byte[] bytes(int tag) {
    return ByteBuffer.allocate(4).order(LITTLE_ENDIAN).putInt(tag).array();
  }
}
