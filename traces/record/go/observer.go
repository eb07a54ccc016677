package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka's keys of requests that are counted: how often one was made decides what is certain.
const (
	offsetCommit   = 8
	initProducerID = 22
	endTxn         = 26
	keys           = 27
)

// An observer records one client: it is the client's hook, and what its wrapper writes to.
type observer struct {
	recorder *Recorder
	client   atomic.Pointer[kgo.Client]
	settings *settings
	failed   error

	consuming *recording                // nil if the client does not consume
	producing atomic.Pointer[recording] // nil until it produces
	opening   sync.Once

	sends   *sends
	polls   *polls
	members *members

	alone    bool // without a wrapper, to whom errors are returned
	wrapped  atomic.Bool
	closing  atomic.Int64
	requests [keys]atomic.Int64
}

func newObserver(of *Recorder) *observer {
	return &observer{recorder: of}
}

// A hook without a wrapper has nobody to return an error to.
func newLoneObserver(of *Recorder) *observer {
	return &observer{recorder: of, alone: true}
}

// observerOf is the observer among a client's hooks, or nil.
func observerOf(cl *kgo.Client) *observer {
	if cl == nil {
		return nil
	}
	for _, hook := range option[[]kgo.Hook](cl, kgo.WithHooks) {
		if found, ok := hook.(*observer); ok {
			return found
		}
	}
	return nil
}

// guard keeps a mistake of the recorder from the application.
func (o *observer) guard() {
	if mistake := recover(); mistake != nil {
		o.broken(fmt.Errorf("%v", mistake))
	}
}

func (o *observer) broken(reason error) {
	o.consuming.broken(reason)
	o.producing.Load().broken(reason)
	if o.sends != nil {
		o.sends.stopped.Store(true)
	}
}

// OnNewClient begins the recording, before the client does anything.
func (o *observer) OnNewClient(cl *kgo.Client) {
	defer o.guard()
	if !o.client.CompareAndSwap(nil, cl) {
		o.failed = errors.New("these options record another client already: ask Opts for each client")
		o.broken(o.failed)
	} else {
		o.settings = settingsOf(cl)
		o.sends = newSends(o)
		o.failed = o.begin()
	}
	if o.failed != nil && o.alone {
		slog.Warn(fmt.Sprintf("%s is not recorded: %v", o.recorder.name, o.failed))
	}
}

func (o *observer) begin() error {
	if o.settings.shares {
		return errors.New("ShareGroup: members of share groups are not recorded")
	}
	if o.settings.consumes() {
		if err := o.consume(); err != nil {
			return err
		}
	}
	if !o.settings.consumes() || o.settings.transactionalID != "" {
		o.produce()
	}
	return o.failed
}

func (o *observer) consume() error {
	configured := o.settings.consumer(o.recorder.choices.commitOrder)
	opened, err := o.open(o.recorder.name, "consumer", configured)
	if err != nil {
		return err
	}
	o.polls = newPolls(o, opened)
	o.members = newMembers(o, opened)
	o.consuming = opened
	o.members.begin()
	return nil
}

// produce opens the recording of a producer once. Beside a consumer it is a process of its own.
func (o *observer) produce() *recording {
	o.opening.Do(func() {
		name := o.recorder.name
		if o.settings.consumes() {
			name += "-producer"
		}
		opened, err := o.open(name, "producer", o.settings.producer())
		if err != nil {
			o.sends.stopped.Store(true)
			o.failed = err
			if o.settings.consumes() {
				slog.Warn(fmt.Sprintf("%s is not recorded: %v", name, err))
			}
			return
		}
		o.producing.Store(opened)
	})
	return o.producing.Load()
}

func (o *observer) open(name, role string, configured fields) (*recording, error) {
	choices := &o.recorder.choices
	about := fields{"role": role, "client": library(), "configured": configured}
	if choices.hashes {
		about["hashes"] = true
	}
	if choices.id != nil {
		about["ids"] = nil
	}
	opened, err := openRecording(o.recorder.run, name, choices.window, about)
	if err != nil {
		return nil, fmt.Errorf("run: cannot record in %s: %w", o.recorder.run, err)
	}
	return opened, nil
}

// OnClientClosed ends the recording: the client is closed.
func (o *observer) OnClientClosed(cl *kgo.Client) {
	defer o.guard()
	if o.client.Load() != cl {
		return
	}
	invoked := o.closing.Load()
	if invoked == 0 {
		invoked = now()
	}
	o.consuming.end("close", invoked)
	o.producing.Load().end("close", invoked)
}

// OnBrokerWrite counts requests.
func (o *observer) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if 0 <= key && key < keys {
		o.requests[key].Add(1)
	}
}

// OnProduceRecordBuffered writes a send down, before the record can be in the log.
func (o *observer) OnProduceRecordBuffered(record *kgo.Record) {
	defer o.guard()
	if o.sends != nil {
		o.sends.begin(record)
	}
}

// OnProduceRecordUnbuffered writes down what became of a send.
func (o *observer) OnProduceRecordUnbuffered(record *kgo.Record, err error) {
	defer o.guard()
	if o.sends != nil {
		o.sends.finish(record, err)
	}
}

// OnPollStart comes before a poll returns anything.
func (o *observer) OnPollStart(context.Context) {
	defer o.guard()
	if o.consuming == nil {
		return
	}
	if !o.wrapped.Load() {
		o.polls.starts()
	}
	o.members.pollStarts()
}

// OnFetchRecordUnbuffered writes down a record that a poll returns, of a client without a wrapper.
func (o *observer) OnFetchRecordUnbuffered(record *kgo.Record, polled bool) {
	if !polled || o.consuming == nil || o.wrapped.Load() {
		return
	}
	defer o.guard()
	o.polls.alone(record)
}
