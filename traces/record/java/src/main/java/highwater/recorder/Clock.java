package highwater.recorder;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.UUID;

/**
 * The clock of a recording: that of the recorder in Python, where the machine has one for all.
 *
 * <p>On Linux {@link System#nanoTime} reads CLOCK_MONOTONIC, and the boot has a name. Elsewhere this
 * JVM has a clock of its own, and its times are compared with nobody's.
 */
final class Clock {
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");
  private static final String BOOT = boot();
  private static final long BEGAN = BOOT == null ? System.nanoTime() : 0;

  /** The name of the clock: times compare only where the names are one. */
  static final String DOMAIN = BOOT == null ? "jvm-" + UUID.randomUUID() : BOOT;

  private Clock() {}

  /** The time in nanoseconds; it never steps back. */
  static long now() {
    return System.nanoTime() - BEGAN;
  }

  private static String boot() {
    if (!System.getProperty("os.name", "").toLowerCase(Locale.ROOT).startsWith("linux")) {
      return null;
    }
    try {
      String id = new String(Files.readAllBytes(BOOT_ID), StandardCharsets.US_ASCII).strip();
      return id.length() < 8 ? null : "boot-" + id.substring(0, 8);
    } catch (IOException | SecurityException unreadable) {
      return null;
    }
  }
}
