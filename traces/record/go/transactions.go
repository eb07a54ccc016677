package recorder

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// How long the client is asked for a producer id that it has already, unless it lost it.
const identified = 100 * time.Millisecond

// transactions are those of one client; they are begun and ended by one goroutine.
type transactions struct {
	observer *observer
	begun    int64 // how many
	open     bool
	known    bool // the producer's id
}

// named are the fields that name the transaction that was begun last.
func (t *transactions) named() fields {
	return t.who().and(fields{"txn": t.begun - 1})
}

func (t *transactions) who() fields {
	return fields{"transactional_id": t.observer.settings.transactionalID}
}

// begin writes down a transaction that `call` begins. The first one asks for a producer id.
func (t *transactions) begin(call func() error) error {
	if t.observer.settings.transactionalID == "" {
		return call()
	}
	process := t.observer.producing.Load()
	first := int64(unrecorded)
	if !t.known {
		first = process.call("init_producer", t.who())
	}
	invoked := now()
	err := call()
	defer t.observer.guard()
	if first != unrecorded {
		t.initialised(process, first, err)
	}
	t.begun++
	if err != nil {
		seq := process.call("txn_begin", t.named())
		process.answer(seq, fail, fields{"error": errorName(err)})
		return err
	}
	t.open = true
	process.note("txn_begin", invoked, t.named())
	t.observer.sends.inside(t.named())
	return nil
}

func (t *transactions) initialised(process *recording, seq int64, err error) {
	if err != nil {
		process.answer(seq, info, fields{"error": errorName(err)})
		return
	}
	client := t.observer.settings.client
	ctx, cancel := context.WithTimeout(client.Context(), identified)
	defer cancel()
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		process.answer(seq, info, nil)
		return
	}
	t.known = true
	process.answer(seq, ok, fields{"producer_id": id, "producer_epoch": epoch})
}

// end writes down a commit or an abort that `call` makes.
func (t *transactions) end(commit kgo.TransactionEndTry, call func() error) error {
	if !t.open {
		return call()
	}
	o := t.observer
	process := o.producing.Load()
	op := "txn_abort"
	if commit {
		op = "txn_commit"
	}
	seq := process.call(op, t.named())
	before := o.requests[endTxn].Load()
	err := call()
	defer o.guard()
	if err == nil {
		process.answer(seq, ok, nil)
		t.ended()
		return nil
	}
	outcome := info
	if commit {
		outcome = endOutcome(err, o.requests[endTxn].Load()-before)
	}
	process.answer(seq, outcome, fields{"error": errorName(err)})
	return err
}

func (t *transactions) ended() {
	t.open = false
	t.observer.sends.inside(t.who())
}

// BeginTransaction is that of kgo.Client, recorded.
func (c *Client) BeginTransaction() error {
	return c.transactions.begin(c.Client.BeginTransaction)
}

// EndTransaction is that of kgo.Client, recorded.
func (c *Client) EndTransaction(ctx context.Context, commit kgo.TransactionEndTry) error {
	return c.transactions.end(commit, func() error { return c.Client.EndTransaction(ctx, commit) })
}

// EndAndBeginTransaction is that of kgo.Client, recorded.
func (c *Client) EndAndBeginTransaction(
	ctx context.Context,
	how kgo.EndBeginTxnHow,
	commit kgo.TransactionEndTry,
	onEnd func(context.Context, error) error,
) error {
	err := c.Flush(ctx)
	if err == nil {
		err = c.EndTransaction(ctx, commit)
	}
	if err := onEnd(ctx, err); err != nil {
		return err
	}
	return c.BeginTransaction()
}
