package highwater.recorder;

import org.apache.kafka.common.header.Headers;

/** A message as an application sees it, of which it tells the id. */
public final class Message {
  private final String topic;
  private final Object key;
  private final Object value;
  private final Headers headers;

  Message(String topic, Object key, Object value, Headers headers) {
    this.topic = topic;
    this.key = key;
    this.value = value;
    this.headers = headers;
  }

  /**
   * Its topic.
   *
   * @return the name of the topic
   */
  public String topic() {
    return topic;
  }

  /**
   * Its key.
   *
   * @return the key before it is serialised, or after it was deserialised
   */
  public Object key() {
    return key;
  }

  /**
   * Its value.
   *
   * @return the value before it is serialised, or after it was deserialised
   */
  public Object value() {
    return value;
  }

  /**
   * Its headers.
   *
   * @return the headers; they are not to be changed
   */
  public Headers headers() {
    return headers;
  }
}
