package highwater.agent;

import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner.Typing;

/** What is woven into the methods of the table: each calls the method of its name in {@link Steps}. */
final class Advices {
  private Advices() {}

  static Class<?> named(String advice) {
    for (Class<?> one : Advices.class.getDeclaredClasses())
      if (one.getSimpleName().equalsIgnoreCase(advice)) return one;
    throw new IllegalArgumentException("hooks.txt: no advice is called " + advice);
  }

  // A broker's roles

  static class Leads {
    @Advice.OnMethodEnter
    static Object enter(@Advice.This Object partition) {
      return Steps.enter("leader", partition);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class Follows {
    @Advice.OnMethodEnter
    static Object enter(@Advice.This Object partition) {
      return Steps.enter("follower", partition);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class Changing {
    @Advice.OnMethodEnter
    static void enter(@Advice.This Object partition) {
      Steps.changing(partition);
    }
  }

  static class Followed {
    @Advice.OnMethodExit
    static void exit(@Advice.This Object partition) {
      Steps.followed(partition);
    }
  }

  static class Loaded {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object partition, @Advice.Return(typing = Typing.DYNAMIC) Object log) {
      Steps.loaded(partition, log);
    }
  }

  // A broker's log

  static class Appends {
    @Advice.OnMethodEnter
    static Object enter(@Advice.This Object partition) {
      return Steps.enter("append", partition);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class EndMoves {
    @Advice.OnMethodEnter
    static void enter(@Advice.This Object log, @Advice.Argument(0) long end) {
      Steps.endMoves(log, end);
    }
  }

  static class Commits {
    @Advice.OnMethodEnter
    static Object enter(@Advice.This Object partition) {
      return Steps.commits(partition);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class MarkMoves {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.This Object log, @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object mark) {
      Steps.markMoves(log, mark);
    }
  }

  static class Truncated {
    @Advice.OnMethodExit
    static void exit(@Advice.This Object partition, @Advice.Argument(0) long to) {
      Steps.truncated(partition, to);
    }
  }

  static class BegunAnew {
    @Advice.OnMethodExit
    static void exit(@Advice.This Object partition, @Advice.Argument(0) long at) {
      Steps.begunAnew(partition, at);
    }
  }

  // Fetches, at the leader and at the follower

  static class Fetched {
    @Advice.OnMethodEnter
    static Object enter(
        @Advice.This Object partition,
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object params,
        @Advice.Argument(value = 1, typing = Typing.DYNAMIC) Object asked,
        @Advice.Argument(5) boolean counts) {
      return Steps.fetched(partition, params, asked, counts);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class Read {
    @Advice.OnMethodExit
    static void exit(@Advice.Return(typing = Typing.DYNAMIC) Object read) {
      Steps.read(read);
    }
  }

  static class Heard {
    @Advice.OnMethodEnter
    static void enter(@Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object end) {
      Steps.heard(end);
    }
  }

  static class Taken {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object fetcher,
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object name,
        @Advice.Argument(1) long from) {
      Steps.taken(fetcher, name, from);
    }
  }

  // The ISR, at its leader

  static class Asked {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object partition, @Advice.Return(typing = Typing.DYNAMIC) Object change) {
      Steps.asked(partition, change);
    }
  }

  static class Answered {
    @Advice.OnMethodEnter
    static Object enter(@Advice.This Object partition) {
      return Steps.enter("answer", partition);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      Steps.leave(before);
    }
  }

  static class Refused {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object partition,
        @Advice.Argument(value = 1, typing = Typing.DYNAMIC) Object error) {
      Steps.refused(partition, error);
    }
  }

  // The controller

  static class Alter {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object manager,
        @Advice.Argument(value = 1, typing = Typing.DYNAMIC) Object request,
        @Advice.Return(typing = Typing.DYNAMIC) Object result) {
      Steps.alter(manager, request, result);
    }
  }

  static class Topic {
    @Advice.OnMethodEnter
    static void enter(@Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object record) {
      Steps.topic(record);
    }
  }

  static class Removed {
    @Advice.OnMethodEnter
    static void enter(@Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object record) {
      Steps.removed(record);
    }
  }

  static class Created {
    @Advice.OnMethodExit
    static void exit(@Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object record) {
      Steps.created(record);
    }
  }

  static class Changed {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object manager,
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object record) {
      Steps.changed(manager, record);
    }
  }

  static class Registered {
    @Advice.OnMethodExit
    static void exit(@Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object record) {
      Steps.registered(record);
    }
  }

  // Transaction coordinators

  static class Asks {
    @Advice.OnMethodEnter
    static Object enter(
        @Advice.This Object coordinator,
        @Advice.Origin("#m") String method,
        @Advice.AllArguments(readOnly = false, typing = Typing.DYNAMIC) Object[] arguments) {
      Object before = TransactionSteps.current();
      arguments = TransactionSteps.asked(method, coordinator, arguments);
      return before;
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object before) {
      TransactionSteps.leave(before);
    }
  }

  static class TimesOut {
    @Advice.OnMethodEnter
    static void enter() {
      TransactionSteps.looksForTimeouts();
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit() {
      TransactionSteps.leave(null);
    }
  }

  static class AppendsState {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.This Object manager,
        @Advice.Argument(0) String id,
        @Advice.Argument(1) int coordinatorEpoch,
        @Advice.Argument(value = 2, typing = Typing.DYNAMIC) Object metadata) {
      TransactionSteps.appends(manager, id, coordinatorEpoch, metadata);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit() {
      TransactionSteps.appendEnds();
    }
  }

  static class TakesEffect {
    @Advice.OnMethodEnter
    static void enter() {
      TransactionSteps.completes();
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.This Object metadata, @Advice.Thrown Throwable thrown) {
      TransactionSteps.completed(metadata, thrown == null);
    }
  }

  static class GivesUp {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.This Object metadata,
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object pending) {
      TransactionSteps.givesUp(metadata, pending);
    }
  }

  static class Serves {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object manager,
        @Advice.Argument(0) int partition,
        @Advice.Argument(1) int coordinatorEpoch,
        @Advice.Argument(value = 2, typing = Typing.DYNAMIC) Object loaded) {
      TransactionSteps.serves(manager, partition, coordinatorEpoch, loaded);
    }
  }

  static class Skips {
    @Advice.OnMethodEnter
    static void enter() {
      TransactionSteps.skips();
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit() {
      TransactionSteps.skipped();
    }
  }

  static class Marked {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.This Object metadata,
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object partition) {
      TransactionSteps.marked(metadata, partition);
    }
  }

  // Coordinators of groups

  static class GroupAsks {
    @Advice.OnMethodEnter
    static boolean enter(@Advice.AllArguments(typing = Typing.DYNAMIC) Object[] arguments) {
      return GroupSteps.asks(arguments);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter boolean asks, @Advice.This Object manager, @Advice.Thrown Throwable thrown) {
      if (asks) GroupSteps.answered(manager, thrown);
    }
  }

  static class GroupCommits {
    @Advice.OnMethodEnter
    static void enter(@Advice.Argument(value = 1, typing = Typing.DYNAMIC) Object request) {
      GroupSteps.commits(request);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.This Object manager, @Advice.Thrown Throwable thrown) {
      GroupSteps.answered(manager, thrown);
    }
  }

  static class GroupFences {
    @Advice.OnMethodEnter
    static boolean enter(
        @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object group,
        @Advice.Argument(value = 1, typing = Typing.DYNAMIC) Object members) {
      return GroupSteps.fences(group, members);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter boolean fences, @Advice.Thrown Throwable thrown) {
      if (fences) GroupSteps.fenced(thrown);
    }
  }

  static class GroupAppends {
    @Advice.OnMethodEnter
    static Object enter(
        @Advice.This Object context,
        @Advice.Argument(value = 3, typing = Typing.DYNAMIC) Object records,
        @Advice.Argument(4) boolean replays) {
      return GroupSteps.appends(context, records, replays);
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object operation, @Advice.Thrown Throwable thrown) {
      GroupSteps.appended(operation, thrown);
    }
  }

  static class GroupFlushes {
    @Advice.OnMethodEnter
    static void enter() {
      GroupSteps.flushes();
    }
  }

  static class GroupServes {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object context, @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object state) {
      GroupSteps.serves(context, state);
    }
  }

  static class GroupReplays {
    @Advice.OnMethodExit
    static void exit() {
      GroupSteps.replayed();
    }
  }

  static class GroupMarks {
    @Advice.OnMethodExit
    static void exit(@Advice.This Object coordinator) {
      GroupSteps.marks(coordinator);
    }
  }

  static class GroupWrites {
    @Advice.OnMethodExit
    static void exit(
        @Advice.This Object coordinator, @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object offset) {
      GroupSteps.wrote(coordinator, ((Number) offset).longValue());
    }
  }

  static class GroupReverts {
    @Advice.OnMethodExit
    static void exit(@Advice.This Object coordinator, @Advice.Argument(0) long offset) {
      GroupSteps.reverts(coordinator, offset);
    }
  }

  static class GroupCommitted {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.This Object coordinator, @Advice.Argument(value = 0, typing = Typing.DYNAMIC) Object offset) {
      GroupSteps.committed(coordinator, ((Number) offset).longValue());
    }
  }
}
