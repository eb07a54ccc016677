package recorder

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sends are those of one producer. Each is written down before the client has the record: from
// then on it may be in the log.
type sends struct {
	observer *observer
	id       func(*kgo.Record) any
	hashes   bool
	stopped  atomic.Bool
	scope    atomic.Pointer[scope]
	topics   topics
	// Places of records that have ids of the application, which do not say it.
	waiting sync.Map
}

// A scope is what sends have in common: the transaction, and a number in the journal by topic.
type scope struct {
	inside  fields
	numbers sync.Map
	making  sync.Mutex
}

func newSends(of *observer) *sends {
	choices := &of.recorder.choices
	s := &sends{observer: of, id: choices.id, hashes: choices.hashes, topics: topics{ask: of.settings.client}}
	s.inside(fields{})
	if id := of.settings.transactionalID; id != "" {
		// Without a transaction: checks that need it find that it is missing.
		s.inside(fields{"transactional_id": id})
	}
	return s
}

// inside puts the sends from here on into a transaction, or into none.
func (s *sends) inside(shared fields) {
	s.scope.Store(&scope{inside: shared})
}

func (s *sends) begin(record *kgo.Record) {
	invoked := now()
	if s.stopped.Load() {
		return
	}
	process := s.observer.producing.Load()
	if process == nil {
		if process = s.observer.produce(); process == nil {
			return
		}
	}
	seq := process.next()
	if s.id == nil {
		mine := process.firstID + seq
		if s.hashes {
			s.write(process, record, seq, mine, invoked)
		} else {
			s.compact(process, record, seq, mine, invoked)
		}
		mark(record, mine)
	} else {
		id := ownID(s.id, record)
		s.waiting.Store(record, seq)
		if number, isNumber := id.(int64); isNumber && number != noID && !s.hashes {
			s.compact(process, record, seq, number, invoked)
		} else {
			s.write(process, record, seq, id, invoked)
		}
	}
	s.topics.use(process, record.Topic)
}

func (s *sends) compact(process *recording, record *kgo.Record, seq, id, invoked int64) {
	shared := s.scope.Load()
	number, known := shared.numbers.Load(record.Topic)
	if !known {
		number = shared.number(process, record.Topic)
	}
	process.journal.send(number.(int32), seq, id, record.Key, invoked)
}

func (s *scope) number(process *recording, topic string) any {
	s.making.Lock()
	defer s.making.Unlock()
	if number, known := s.numbers.Load(topic); known {
		return number
	}
	number := process.nextContext()
	process.write(fields{"context": number, "topic": topic, "inside": s.inside})
	s.numbers.Store(topic, number)
	return number
}

// write is for what the compact form has no room for.
func (s *sends) write(process *recording, record *kgo.Record, seq int64, id any, invoked int64) {
	sent := spelt{Topic: record.Topic, ID: id}
	sent.keyed(record.Key)
	if record.Key != nil {
		sent.Chosen = new(bool)
	}
	if s.hashes {
		sent.hashed(record)
	}
	line := fields{"seq": seq, "op": "send", "invoked_ns": invoked, "records": []spelt{sent}}
	process.write(line.and(s.scope.Load().inside))
}

func (s *sends) finish(record *kgo.Record, err error) {
	process := s.observer.producing.Load()
	if process == nil || s.stopped.Load() {
		return
	}
	seq, known := s.placeOf(process, record)
	if !known {
		return
	}
	if err != nil {
		outcome := sendOutcome(err, s.observer.settings.ordered)
		process.answer(seq, outcome, fields{"error": errorName(err)})
		return
	}
	if record.Offset >= 0 {
		// The time of the record is left out: the topic may have put its own in place of it.
		process.journal.report(seq, int64(record.Partition), record.Offset, -1, now())
		return
	}
	outcome := ok
	if s.observer.settings.acks == "0" {
		outcome = info
	}
	process.answer(seq, outcome, fields{"at": []any{record.Partition, nil, nil}})
}

func (s *sends) placeOf(process *recording, record *kgo.Record) (seq int64, known bool) {
	if s.id != nil {
		found, known := s.waiting.LoadAndDelete(record)
		if !known {
			return 0, false
		}
		return found.(int64), true
	}
	seq = idIn(record) - process.firstID
	return seq, 0 <= seq && seq < process.seqs.Load()
}
