package highwater.agent;

import java.util.Collection;

/** One line of the journal, as JSON. */
final class Line {
  private final StringBuilder text = new StringBuilder(200);

  Line(String event) {
    text.append("\"ev\":");
    quote(event);
  }

  Line with(String name, long value) {
    field(name).append(value);
    return this;
  }

  Line with(String name, boolean value) {
    field(name).append(value);
    return this;
  }

  Line with(String name, String value) {
    field(name);
    quote(value);
    return this;
  }

  /** A list of numbers, or of pairs of them as "[1,7]". */
  Line with(String name, Collection<?> numbers) {
    field(name).append('[');
    String before = "";
    for (Object one : numbers) {
      text.append(before).append(one);
      before = ",";
    }
    text.append(']');
    return this;
  }

  private StringBuilder field(String name) {
    return text.append(",\"").append(name).append("\":");
  }

  private void quote(String value) {
    text.append('"');
    for (char c : value.toCharArray()) {
      if (c == '"' || c == '\\') text.append('\\');
      text.append(c < ' ' ? ' ' : c);
    }
    text.append('"');
  }

  @Override
  public String toString() {
    return text.toString();
  }
}
