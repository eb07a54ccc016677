package recorder

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Session is a kgo.GroupTransactSession, recorded: as a consumer, and as the producer beside it.
// The session keeps rebalances for itself, so they are not seen.
type Session struct {
	*kgo.GroupTransactSession
	processing

	transactions transactions
}

// WrapSession returns the session that kgo.NewGroupTransactSession made with options of
// [Recorder.Opts], recorded. If it cannot be, it is closed, and WrapSession returns the error.
func WrapSession(session *kgo.GroupTransactSession, err error) (*Session, error) {
	var client *kgo.Client
	if session != nil {
		client = session.Client()
	}
	o, err := wrapped(client, err)
	if err != nil {
		return nil, err
	}
	return &Session{session, processing{o}, transactions{observer: o}}, nil
}

// RecordedAs is the name of the consumer's process in the trace. That of the producer has
// "-producer" in it.
func (s *Session) RecordedAs() string {
	return s.observer.recordedAs()
}

// PollFetches is that of kgo.GroupTransactSession, recorded.
func (s *Session) PollFetches(ctx context.Context) kgo.Fetches {
	return s.PollRecords(ctx, 0)
}

// PollRecords is that of kgo.GroupTransactSession, recorded.
func (s *Session) PollRecords(ctx context.Context, maxPollRecords int) kgo.Fetches {
	invoked := now()
	fetches := s.GroupTransactSession.PollRecords(ctx, maxPollRecords)
	s.observer.polled(fetches, invoked)
	return fetches
}

// Begin is that of kgo.GroupTransactSession, recorded.
func (s *Session) Begin() error {
	return s.transactions.begin(s.GroupTransactSession.Begin)
}

// End is that of kgo.GroupTransactSession, recorded: the offsets that go with the transaction, its
// commit if the session tries one, and its abort.
func (s *Session) End(ctx context.Context, commit kgo.TransactionEndTry) (committed bool, err error) {
	if !s.transactions.open {
		return s.GroupTransactSession.End(ctx, commit)
	}
	if !commit {
		err = s.transactions.end(commit, func() error {
			committed, err = s.GroupTransactSession.End(ctx, commit)
			return err
		})
	} else {
		mine := s.ask()
		committed, err = s.GroupTransactSession.End(mine.watched(ctx), commit)
		mine.done(committed, err)
	}
	if !committed {
		s.rewound()
	}
	return committed, err
}

// An ending is the commit of a session, from its call to its answer.
type ending struct {
	session         *Session
	invoked         int64
	offsets, commit int64
	ends, inits     int64 // how many requests were made
}

func (s *Session) ask() *ending {
	o := s.observer
	return &ending{
		session: s,
		invoked: now(),
		offsets: unrecorded,
		commit:  unrecorded,
		ends:    o.requests[endTxn].Load(),
		inits:   o.requests[initProducerID].Load(),
	}
}

// watched is a context by which the offsets are seen. The session does not commit without sending
// them, though they be none.
func (e *ending) watched(ctx context.Context) context.Context {
	type seen = func(*kmsg.TxnOffsetCommitRequest) error
	see := func(asked *kmsg.TxnOffsetCommitRequest) error {
		e.asked(asked)
		return nil
	}
	return &watch[seen]{
		Context: ctx,
		seeing:  kgo.PreTxnCommitFnContext(ctx, see),
		join: func(first seen) seen {
			return func(asked *kmsg.TxnOffsetCommitRequest) error {
				if err := first(asked); err != nil {
					return err
				}
				return see(asked)
			}
		},
	}
}

func (e *ending) asked(request *kmsg.TxnOffsetCommitRequest) {
	o, txn := e.session.observer, e.session.transactions.named()
	defer o.guard()
	process := o.producing.Load()
	offsets := make(map[string]int64)
	for _, topic := range request.Topics {
		for _, one := range topic.Partitions {
			offsets[partition{topic.Topic, one.Partition}.String()] = one.Offset
		}
	}
	if len(offsets) > 0 {
		about := txn.and(o.settings.grouped()).and(fields{"offsets": offsets})
		if request.MemberID != "" && request.Generation >= 0 {
			about["member"], about["generation"] = request.MemberID, request.Generation
		}
		e.offsets = process.call("txn_offsets", about)
	}
	e.commit = process.call("txn_commit", txn)
}

// done writes down what became of it. A session that did not commit has aborted, unless it says
// that it failed.
func (e *ending) done(committed bool, err error) {
	o := e.session.observer
	defer o.guard()
	process := o.producing.Load()
	if committed {
		process.answer(e.offsets, ok, nil)
		process.answer(e.commit, ok, nil)
		e.session.transactions.ended()
		return
	}
	reason := fields{}
	if err != nil {
		reason["error"] = errorName(err)
	}
	process.answer(e.offsets, info, reason)
	process.answer(e.commit, e.outcome(err), reason)
	if err != nil {
		seq := process.call("txn_abort", e.session.transactions.named())
		process.answer(seq, info, reason)
		return
	}
	process.note("txn_abort", e.invoked, e.session.transactions.named())
	e.session.transactions.ended()
}

// outcome is that of a commit that was not made. The session aborts by itself after a commit of
// which it learnt nothing certain, too: by another request, or by a new producer id.
func (e *ending) outcome(err error) string {
	o := e.session.observer
	ends := o.requests[endTxn].Load() - e.ends
	inits := o.requests[initProducerID].Load() - e.inits
	if err == nil && ends <= 1 && inits == 0 {
		return fail
	}
	return info
}

// rewound writes down that the session has put its positions back to what was committed.
func (s *Session) rewound() {
	o := s.observer
	defer o.guard()
	o.consuming.note("seek", now(), fields{"partitions": o.polls.seen()})
}

// Close is that of kgo.GroupTransactSession, and the end of the recording.
func (s *Session) Close() {
	s.observer.closing.Store(now())
	s.GroupTransactSession.Close()
}

// CloseAllowingRebalance is that of kgo.GroupTransactSession, and the end of the recording.
func (s *Session) CloseAllowingRebalance() {
	s.observer.closing.Store(now())
	s.GroupTransactSession.CloseAllowingRebalance()
}
