package highwater.recorder;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;

/** The fields that name a member of a group, as JSON between braces. */
final class Members {
  private Members() {}

  /** Group, member and generation, as far as they are known; behind what the group's calls have. */
  static String of(ConsumerGroupMetadata held, String grouped) {
    if (held == null) {
      return grouped;
    }
    Line line = new Line();
    if (grouped.isEmpty()) {
      line.put("group", held.groupId());
    } else {
      line.fields(grouped);
    }
    if (!held.memberId().isEmpty()) {
      line.put("member", held.memberId());
    }
    if (held.generationId() >= 0) {
      line.put("generation", held.generationId());
    }
    return line.members();
  }
}
