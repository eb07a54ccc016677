import java.io.FileReader;
import java.io.Reader;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/** Prints the settings of each file as Kafka has them after config.providers, or the refusal. */
public final class Resolved {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (Reader reader = new FileReader(file)) {
                settings.load(reader);
            }
            System.out.println("=file " + file);
            try {
                Map<String, Object> found = new AbstractConfig(new ConfigDef(), settings).originals();
                new TreeMap<>(found).forEach((name, value) -> System.out.println(
                    "=" + name + "=" + value.toString().replace("\n", "\\n")));
            } catch (ConfigException refused) {
                System.out.println("=refused");
            }
        }
    }
}
