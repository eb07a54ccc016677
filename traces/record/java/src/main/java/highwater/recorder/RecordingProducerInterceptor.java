package highwater.recorder;

import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Headers;

/**
 * A recorder of a producer whose application may not change: {@code interceptor.classes}.
 *
 * <p>It sees sends, and since kafka-clients 4.1 their reports. It sees no transactions; the records of
 * a producer that has such are written down without them.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class RecordingProducerInterceptor<K, V> implements ProducerInterceptor<K, V> {
  private Recording recording;
  private Sends sends;

  /** An interceptor that is configured by the client. */
  public RecordingProducerInterceptor() {}

  @Override
  public void configure(Map<String, ?> configs) {
    Settings settings = Settings.producer(configs);
    Options options = Intercepted.options(configs, "producer");
    recording = Recorded.intercepted(
        Intercepted.run(configs), "producer", settings.describedProducer(1), settings, options);
    Inside nothing = new Inside(null);
    Topics topics = new Topics(recording, nothing, false);
    Contents contents = Contents.sent(settings.given(), nothing, options.hashed(settings, 1));
    sends = new Sends(recording, new Ids(null), contents, topics, settings);
    // Without a transaction: checks that need it find that it is missing.
    sends.inside(new Line().put("transactional_id", settings.transactionalId()).members());
  }

  @Override
  public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
    try {
      long invoked = Clock.now();
      return sends.begin(record, recording.next(), invoked);
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
      return record;
    }
  }

  /** Before 4.1 nobody tells to which record a report belongs: it stays unanswered. */
  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception, Headers headers) {
    try {
      long id = headers == null ? Ids.NONE : Ids.inHeader(headers);
      long seq = id - recording.firstId;
      if (id == Ids.NONE || seq < 0 || !recording.knows(seq)) {
        return;
      }
      if (exception == null) {
        sends.stored(seq, metadata);
      } else {
        sends.refused(seq, metadata, exception, false);
      }
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
  }

  @Override
  public void close() {
    if (recording != null) {
      recording.end("close", Clock.now());
    }
  }
}
