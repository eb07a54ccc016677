import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import tlc2.TLC;
import tlc2.output.EC;
import util.SimpleFilenameToStream;

/**
 * Checks configurations of one module with TLC, one after the other, in one JVM.
 *
 * <p>Usage: {@code Batch MODULE STATES OPTIONS CFG...}, in the module's folder; STATES is a folder for what TLC
 * keeps on disk, OPTIONS are more of TLC's own with spaces between, and CFG is a path. After what TLC says of each configuration comes a line
 * {@code @!@!@ENDRUN CODE SECONDS @!@!@}: the exit code that TLC would have ended with, and the processor seconds
 * of the JVM since the last such line, or since its start.
 */
public final class Batch {
  private static final OperatingSystemMXBean PROCESS =
      ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

  private Batch() {}

  public static void main(String[] args) {
    long began = 0;
    for (int i = 3; i < args.length; i++) {
      int code = check(args[0], args[1] + "/" + i, args[2], args[i]);
      long ended = PROCESS.getProcessCpuTime();
      System.out.println("@!@!@ENDRUN " + code + " " + (ended - began) / 1e9 + " @!@!@");
      System.out.flush();
      began = ended;
    }
    System.exit(0);
  }

  private static int check(String module, String states, String options, String cfg) {
    TLC tlc = new TLC();
    List<String> arguments = new ArrayList<>(List.of(options.split(" ")));
    arguments.addAll(List.of("-metadir", states, "-config", cfg, module));
    if (!tlc.handleParameters(arguments.toArray(new String[0]))) return EC.ExitStatus.ERROR;
    tlc.setResolver(new SimpleFilenameToStream());
    return EC.ExitStatus.errorConstantToExitStatus(tlc.process());
  }
}
