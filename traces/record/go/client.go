package recorder

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Client is a kgo.Client, recorded. Calls to the client inside it are not all seen: hand the
// wrapper on.
//
// Three methods are new, for consumers: [Client.Process] around the handling of records, or
// [Client.Processed] and [Client.ProcessedRecords] after it. Without them nobody can say whether
// what was committed had been processed.
type Client struct {
	*kgo.Client
	processing

	commits      commits
	transactions transactions
	pauses       pauses
}

// Wrap returns the client that kgo.NewClient made with options of [Recorder.Opts], recorded. If it
// cannot be, it is closed, and Wrap returns the error.
func Wrap(client *kgo.Client, err error) (*Client, error) {
	o, err := wrapped(client, err)
	if err != nil {
		return nil, err
	}
	c := &Client{Client: client, processing: processing{o}}
	c.commits = commits{c.processing}
	c.transactions = transactions{observer: o}
	c.pauses = pauses{observer: o, topics: make(map[string][]string)}
	return c, nil
}

func wrapped(client *kgo.Client, err error) (*observer, error) {
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("client: expected what kgo.NewClient returns, found nil")
	}
	o := observerOf(client)
	if o == nil {
		err = errors.New("client: expected one with options of Recorder.Opts")
	} else {
		err = o.failed
	}
	if err != nil {
		client.CloseAllowingRebalance()
		return nil, err
	}
	o.wrapped.Store(true)
	return o, nil
}

// RecordedAs is the name of the process in the trace: the client's name with the number of its
// incarnation. What a consumer sends is recorded under this name with "-producer" in it.
func (c *Client) RecordedAs() string {
	return c.observer.recordedAs()
}

func (o *observer) recordedAs() string {
	if o.consuming != nil {
		return o.consuming.name
	}
	return o.producing.Load().name
}

// PollFetches is that of kgo.Client, recorded.
func (c *Client) PollFetches(ctx context.Context) kgo.Fetches {
	return c.PollRecords(ctx, 0)
}

// PollRecords is that of kgo.Client, recorded. A poll without records leaves no trace.
func (c *Client) PollRecords(ctx context.Context, maxPollRecords int) kgo.Fetches {
	invoked := now()
	fetches := c.Client.PollRecords(ctx, maxPollRecords)
	c.observer.polled(fetches, invoked)
	return fetches
}

func (o *observer) polled(fetches kgo.Fetches, invoked int64) {
	defer o.guard()
	if o.consuming != nil {
		o.polls.returned(fetches, invoked)
	}
}

// SetOffsets is that of kgo.Client, recorded.
func (c *Client) SetOffsets(offsets map[string]map[int32]kgo.EpochOffset) {
	invoked := now()
	c.Client.SetOffsets(offsets)
	c.observed(func(o *observer) {
		o.members.seek(offsets)
		moved := make(map[string][]int32)
		for topic, several := range offsets {
			for number, at := range several {
				if at.Offset >= 0 {
					moved[topic] = append(moved[topic], number)
				}
			}
		}
		named := named(moved)
		all := offsetsOf(offsets)
		for name := range all {
			if !slices.Contains(named, name) {
				delete(all, name)
			}
		}
		o.consuming.note("seek", invoked, fields{"partitions": named, "offsets": all})
	})
}

// observed calls the recorder, if the client consumes.
func (c *Client) observed(call func(*observer)) {
	defer c.observer.guard()
	if c.observer.consuming != nil {
		call(c.observer)
	}
}

// AddConsumeTopics is that of kgo.Client, recorded.
func (c *Client) AddConsumeTopics(topics ...string) {
	c.Client.AddConsumeTopics(topics...)
	c.resubscribed()
}

// PurgeTopicsFromClient is that of kgo.Client, recorded.
func (c *Client) PurgeTopicsFromClient(topics ...string) {
	c.Client.PurgeTopicsFromClient(topics...)
	c.resubscribed()
}

// PurgeTopicsFromConsuming is that of kgo.Client, recorded.
func (c *Client) PurgeTopicsFromConsuming(topics ...string) {
	c.Client.PurgeTopicsFromConsuming(topics...)
	c.resubscribed()
}

// AddConsumePartitions is that of kgo.Client, recorded.
func (c *Client) AddConsumePartitions(partitions map[string]map[int32]kgo.Offset) {
	c.Client.AddConsumePartitions(partitions)
	c.resubscribed()
}

// RemoveConsumePartitions is that of kgo.Client, recorded.
func (c *Client) RemoveConsumePartitions(partitions map[string][]int32) {
	c.Client.RemoveConsumePartitions(partitions)
	c.resubscribed()
}

// resubscribed writes down that the client consumes something else now. A client without a group
// does not say which partitions.
func (c *Client) resubscribed() {
	c.observed(func(o *observer) {
		switch {
		case o.settings.group == "":
			o.members.unseen()
		case !o.settings.regex:
			o.members.subscribed(c.GetConsumeTopics())
		}
	})
}

// LeaveGroup is that of kgo.Client, recorded.
func (c *Client) LeaveGroup() {
	c.Client.LeaveGroup()
	c.left()
}

// LeaveGroupContext is that of kgo.Client, recorded.
func (c *Client) LeaveGroupContext(ctx context.Context) error {
	defer c.left()
	return c.Client.LeaveGroupContext(ctx)
}

func (c *Client) left() {
	c.observed(func(o *observer) {
		if o.settings.group != "" {
			o.members.subscribed(nil)
		}
	})
}

// Close is that of kgo.Client, and the end of the recording.
func (c *Client) Close() {
	c.observer.closing.Store(now())
	c.Client.Close()
}

// CloseAllowingRebalance is that of kgo.Client, and the end of the recording.
func (c *Client) CloseAllowingRebalance() {
	c.observer.closing.Store(now())
	c.Client.CloseAllowingRebalance()
}
