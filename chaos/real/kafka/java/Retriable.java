import java.util.TreeMap;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints, as JSON, each of Kafka's errors, and true for those after which clients ask again. */
public final class Retriable {
    public static void main(String[] args) throws Exception {
        TreeMap<String, Boolean> all = new TreeMap<>();
        for (Errors one : Errors.values())
            all.put(one.name(), one.exception() instanceof RetriableException);
        System.out.println(new ObjectMapper().writeValueAsString(all));
    }
}
