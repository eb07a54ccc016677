import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers by command: each line of the input is one call, and is answered with ok or the exception's name. Transacting BOOTSTRAP */
public final class Transacting {
  private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

  private Transacting() {}

  private static void called(String bootstrap, String[] words) throws Exception {
    KafkaProducer<String, String> producer = PRODUCERS.get(words[1]);
    switch (words[0]) {
      case "start" -> {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", words[2]));
        settings.put("transaction.timeout.ms", Integer.parseInt(words[3]));
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        PRODUCERS.put(words[1], producer);
        producer.initTransactions();
      }
      case "begin" -> producer.beginTransaction();
      case "send" -> producer.send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[4])).get();
      case "commit" -> producer.commitTransaction();
      case "abort" -> producer.abortTransaction();
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = input.readLine()) != null; ) {
      String said = "ok";
      try {
        called(arguments[0], line.split(" "));
      } catch (Exception refused) {
        said = refused.getClass().getSimpleName();
      }
      System.out.println(said);
    }
    Runtime.getRuntime().halt(0);
  }
}
