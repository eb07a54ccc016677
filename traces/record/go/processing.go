package recorder

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// processing is the handling of records by the application, as it reports that to its wrapper.
type processing struct {
	observer *observer
}

// Process says that the application handles what a poll returned, until it calls done. Records
// whose done is not called count as not processed.
func (p processing) Process(fetches kgo.Fetches) (done func()) {
	invoked := now()
	return func() { p.processed(delivered(fetches), invoked) }
}

// Processed says that the application is done with what a poll returned. It is called before the
// commit that waits for it.
func (p processing) Processed(fetches kgo.Fetches) {
	p.processed(delivered(fetches), now())
}

// ProcessedRecords says that the application is done with these records. It is called before the
// commit that waits for it.
func (p processing) ProcessedRecords(records ...*kgo.Record) {
	p.processed(records, now())
}

func (p processing) processed(records []*kgo.Record, invoked int64) {
	o := p.observer
	if len(records) == 0 || o == nil || o.consuming == nil {
		return
	}
	defer o.guard()
	about := p.by()
	last := o.polls.lastDelivery()
	if slices.Equal(records, last.records) {
		// Nothing is written twice: settling puts in the records of that poll.
		about["records_of"] = last.seq
	} else {
		about["records"] = o.polls.spell(slices.DeleteFunc(slices.Clone(records), isNil))
	}
	o.consuming.note("process", invoked, about.and(o.settings.grouped()))
}

func isNil(record *kgo.Record) bool {
	return record == nil
}

// by says if another goroutine than the one that polls makes a call.
func (p processing) by() fields {
	poller := p.observer.polls.lastDelivery().by
	if poller != "" && poller != thisGoroutine() {
		return fields{"other_thread": true}
	}
	return fields{}
}
