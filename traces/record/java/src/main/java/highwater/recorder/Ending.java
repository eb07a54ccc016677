package highwater.recorder;

/** The end of a client: one whose close raises, as when it was fenced, crashed. */
final class Ending {
  private Ending() {}

  static void around(Recording recording, Topics topics, Runnable close) {
    long invoked = Clock.now();
    try {
      topics.leave();
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
    try {
      close.run();
    } catch (RuntimeException | Error refusal) {
      recording.end("crash", invoked);
      throw refusal;
    }
    recording.end("close", invoked);
  }
}
