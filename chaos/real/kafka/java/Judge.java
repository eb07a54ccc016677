import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own command line tools, many in one JVM: starting one costs more than all it is asked.
 *
 * A request is a line on standard input, the class of a tool and its arguments, parted by tabs. The
 * answer is three integers (exit code, size of what it printed, size of what it complained of) and
 * the two texts.
 */
public final class Judge {
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super("ended with " + status, null, false, false);
            this.status = status;
        }
    }

    /** The status of the first exit: some tools catch ours, and exit once more. */
    private static Integer ended;

    public static void main(String[] args) throws Exception {
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> {
            if (ended == null)
                ended = status;
            throw new Ended(status);
        });
        for (String request; (request = requests.readLine()) != null;)
            answer(request.split("\t", -1), answers);
    }

    private static void answer(String[] request, DataOutputStream answers) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, false, StandardCharsets.UTF_8));
        ended = null;
        int status = run(request[0], Arrays.copyOfRange(request, 1, request.length));
        if (ended != null)
            status = ended;
        System.out.flush();
        System.err.flush();
        answers.writeInt(status);
        answers.writeInt(out.size());
        answers.writeInt(err.size());
        out.writeTo(answers);
        err.writeTo(answers);
        answers.flush();
    }

    private static int run(String tool, String[] args) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Ended ended)
                return ended.status;
            e.getCause().printStackTrace();
            return 1; // as a JVM of its own would end
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
        }
        return 2;
    }
}
