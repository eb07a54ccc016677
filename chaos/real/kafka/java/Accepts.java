import java.io.FileReader;
import java.io.PrintStream;
import java.io.Reader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

import com.fasterxml.jackson.databind.ObjectMapper;

import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;

/** Starts Kafka on each file of settings, and prints, as JSON, nothing, or why it does not start. */
public final class Accepts {
    private static final String CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ";

    public static void main(String[] files) throws Exception {
        Exit.setExitProcedure((status, message) -> { throw new IllegalStateException(message); });
        Exit.setHaltProcedure((status, message) -> { throw new IllegalStateException(message); });
        PrintStream out = System.out;
        System.setOut(System.err);
        List<String> answers = new ArrayList<>();
        for (String file : files)
            answers.add(verdict(file));
        out.println(new ObjectMapper().writeValueAsString(answers));
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String verdict(String file) throws Exception {
        Properties settings = new Properties();
        try (Reader reader = new FileReader(file)) {
            settings.load(reader);
        }
        try {
            KafkaConfig config = KafkaConfig.fromProps(settings, false);
            if (!settings.getProperty("process.roles").contains("controller"))
                return null; // it would wait for controllers
            String[] format = {"format", "-t", CLUSTER, "-c", file};
            if (!settings.containsKey("controller.quorum.voters"))
                format = new String[] {"format", "-t", CLUSTER, "-c", file, "--standalone"};
            StorageTool.execute(format, System.err);
            KafkaRaftServer server = new KafkaRaftServer(config, Time.SYSTEM);
            try {
                server.startup();
            } finally {
                server.shutdown();
                server.awaitShutdown();
            }
            return null;
        } catch (Throwable refused) {
            Throwable first = refused;
            while (first.getCause() != null)
                first = first.getCause();
            return first.getMessage() != null ? first.getMessage() : first.toString();
        }
    }
}
