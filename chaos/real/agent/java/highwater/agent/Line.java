package highwater.agent;

import java.util.Collection;

/** One line of the journal, as JSON. */
final class Line {
  private final StringBuilder text = new StringBuilder(200);

  /** What is within another line. */
  Line() {}

  Line(String event) {
    text.append("\"ev\":");
    quote(event);
  }

  static String quoted(String value) {
    Line line = new Line();
    line.quote(value);
    return line.toString();
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

  /** A list of numbers, or of other values as JSON has them. */
  Line with(String name, Collection<?> values) {
    field(name).append('[');
    String before = "";
    for (Object one : values) {
      text.append(before).append(one);
      before = ",";
    }
    text.append(']');
    return this;
  }

  private StringBuilder field(String name) {
    return text.append(text.isEmpty() ? "\"" : ",\"").append(name).append("\":");
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
