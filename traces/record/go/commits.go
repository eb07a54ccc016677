package recorder

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commits are those that the application asks its client for.
type commits struct {
	processing
}

// A commit is one of them, from its call to its answer.
type commit struct {
	observer *observer
	about    fields
	seq      int64
	offsets  int
	before   int64  // how many requests were made
	sent     fields // what the request holds, once there is one
}

// ask writes a commit down before the client is called. Where nothing seems to be due, that is
// left to the answer.
func (c *commits) ask(offsets map[string]map[int32]kgo.EpochOffset) *commit {
	o := c.observer
	mine := &commit{observer: o, seq: unrecorded}
	defer o.guard()
	if o.consuming == nil || o.settings.group == "" {
		return mine
	}
	mine.before = o.requests[offsetCommit].Load()
	mine.about = c.by().and(o.members.membership())
	named := offsetsOf(offsets)
	mine.offsets = len(named)
	if len(named) > 0 {
		mine.seq = o.consuming.call("commit", mine.about.and(fields{"offsets": named}))
	}
	return mine
}

// watched is a context by which the request is seen that the client sends.
func (c *commit) watched(ctx context.Context) context.Context {
	if c.about == nil {
		return ctx
	}
	see := func(asked *kmsg.OffsetCommitRequest) error {
		defer c.observer.guard()
		c.sent = requested(asked)
		return nil
	}
	return &watch[func(*kmsg.OffsetCommitRequest) error]{
		Context: ctx,
		seeing:  kgo.PreCommitFnContext(ctx, see),
		join: func(first func(*kmsg.OffsetCommitRequest) error) func(*kmsg.OffsetCommitRequest) error {
			if same(first, c.observer.automatic()) {
				return see // the application's context is the client's, and the commit its own
			}
			return func(asked *kmsg.OffsetCommitRequest) error {
				if err := first(asked); err != nil {
					return err
				}
				return see(asked)
			}
		},
	}
}

// A watch is the application's context with one more function that sees a request before it is
// sent: behind that of the application, if it has one.
type watch[F any] struct {
	context.Context
	seeing context.Context
	join   func(first F) F
}

// Value is that of the application's context, or the function.
func (w *watch[F]) Value(key any) any {
	found := w.seeing.Value(key)
	if _, isOurs := found.(F); isOurs {
		if first, isTheirs := w.Context.Value(key).(F); isTheirs {
			return w.join(first)
		}
	}
	return found
}

// done writes down the answer: an error of one partition, or of all.
func (c *commit) done(err error, ofAll bool) {
	o := c.observer
	defer o.guard()
	if c.about == nil || c.seq == unrecorded && c.sent == nil {
		return
	}
	if c.seq == unrecorded {
		c.seq = o.consuming.call("commit", c.about.and(c.sent))
	}
	answer := fields{"offsets": map[string]int64{}}
	if c.sent != nil {
		answer = c.sent
		c.offsets = len(c.sent["offsets"].(map[string]int64))
	}
	if err == nil {
		o.consuming.answer(c.seq, ok, answer)
		return
	}
	outcome := fail // no request was made
	if c.sent != nil {
		partitions := c.offsets
		if ofAll {
			partitions = 1
		}
		outcome = commitOutcome(err, partitions, o.requests[offsetCommit].Load()-c.before)
	} else {
		answer = fields{}
	}
	o.consuming.answer(c.seq, outcome, answer.and(fields{"error": errorName(err)}))
}

// CommitRecords is that of kgo.Client, recorded.
func (c *Client) CommitRecords(ctx context.Context, rs ...*kgo.Record) error {
	mine := c.commits.ask(behind(rs))
	err := c.Client.CommitRecords(mine.watched(ctx), rs...)
	mine.done(err, false)
	return err
}

// behind are the offsets behind records.
func behind(records []*kgo.Record) map[string]map[int32]kgo.EpochOffset {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for _, one := range records {
		if offsets[one.Topic] == nil {
			offsets[one.Topic] = make(map[int32]kgo.EpochOffset)
		}
		next := kgo.EpochOffset{Epoch: one.LeaderEpoch, Offset: one.Offset + 1}
		if at, isKnown := offsets[one.Topic][one.Partition]; !isKnown || at.Less(next) {
			offsets[one.Topic][one.Partition] = next
		}
	}
	return offsets
}

// CommitUncommittedOffsets is that of kgo.Client, recorded.
func (c *Client) CommitUncommittedOffsets(ctx context.Context) error {
	mine := c.commits.ask(c.UncommittedOffsets())
	err := c.Client.CommitUncommittedOffsets(mine.watched(ctx))
	mine.done(err, false)
	return err
}

// CommitMarkedOffsets is that of kgo.Client, recorded.
func (c *Client) CommitMarkedOffsets(ctx context.Context) error {
	mine := c.commits.ask(c.MarkedOffsets())
	err := c.Client.CommitMarkedOffsets(mine.watched(ctx))
	mine.done(err, false)
	return err
}

// CommitOffsetsSync is that of kgo.Client, recorded.
func (c *Client) CommitOffsetsSync(
	ctx context.Context,
	uncommitted map[string]map[int32]kgo.EpochOffset,
	onDone func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error),
) {
	mine := c.commits.ask(uncommitted)
	c.Client.CommitOffsetsSync(mine.watched(ctx), uncommitted, mine.answering(onDone))
}

// CommitOffsets is that of kgo.Client, recorded.
func (c *Client) CommitOffsets(
	ctx context.Context,
	uncommitted map[string]map[int32]kgo.EpochOffset,
	onDone func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error),
) {
	mine := c.commits.ask(uncommitted)
	c.Client.CommitOffsets(mine.watched(ctx), uncommitted, mine.answering(onDone))
}

// answering is a callback that writes the answer down before the application has it.
func (c *commit) answering(users committing) committing {
	return func(cl *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			c.done(err, true)
		} else {
			c.done(refusal(answer))
		}
		if users != nil {
			users(cl, asked, answer, err)
		}
	}
}
