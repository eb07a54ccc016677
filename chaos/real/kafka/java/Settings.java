import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints, as JSON, what Kafka's own definitions say of every setting, or of some values. */
public final class Settings {
    public static void main(String[] args) throws Exception {
        if (args.length > 0)
            values(args[0]);
        else
            definitions();
    }

    /** For each line of a file, `broker` or `topic`, a name and a value: what Kafka makes of it. */
    private static void values(String file) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(file))) {
            String[] parts = line.split("\t", -1);
            ConfigDef of = parts[0].equals("topic")
                ? LogConfig.configDefCopy() : AbstractKafkaConfig.CONFIG_DEF;
            ConfigDef.ConfigKey key = of.configKeys().get(parts[1]);
            try {
                Object value = ConfigDef.parseType(key.name, parts[2], key.type);
                if (key.validator != null)
                    key.validator.ensureValid(key.name, value);
                answers.add("= " + ConfigDef.convertToString(value, key.type));
            } catch (ConfigException refused) {
                answers.add(refused.getMessage());
            }
        }
        System.out.println(new ObjectMapper().writeValueAsString(answers));
    }

    private static void definitions() throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("broker", definitions(AbstractKafkaConfig.CONFIG_DEF));
        all.put("topic", definitions(LogConfig.configDefCopy()));
        all.put("group", definitions(GroupConfig.CONFIG_DEF));
        all.put("producer", definitions(ProducerConfig.configDef()));
        all.put("consumer", definitions(ConsumerConfig.configDef()));
        all.put("brokerQuotas", definitions(QuotaConfig.brokerQuotaConfigs()));
        all.put("clientQuotas", definitions(QuotaConfig.userAndClientQuotaConfigs()));
        all.put("ipQuotas", definitions(QuotaConfig.ipConfigs()));
        all.put("updateModes", new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes()));
        Map<String, String> ofGroups = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, of) -> of.ifPresent(one -> ofGroups.put(name, one)));
        all.put("groupSynonyms", ofGroups);
        Map<String, List<String>> synonyms = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, of) -> {
            List<String> names = new ArrayList<>();
            of.forEach(one -> names.add(one.name()));
            synonyms.put(name, names);
        });
        all.put("synonyms", synonyms);
        System.out.println(new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(all));
    }

    private static Map<String, Object> definitions(ConfigDef definitions) {
        Map<String, Object> found = new TreeMap<>();
        definitions.configKeys().forEach((name, key) -> {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("type", key.type().name());
            one.put("required", !key.hasDefault());
            one.put("default",
                key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            one.put("valid", key.validator == null ? "" : key.validator.toString());
            one.put("importance", key.importance.name());
            one.put("internal", key.internalConfig);
            found.put(name, one);
        });
        return found;
    }
}
