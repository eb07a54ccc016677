package recorder

import "sync"

// pauses are partitions that are not fetched.
type pauses struct {
	observer *observer
	mu       sync.Mutex
	topics   map[string][]string // the partitions that were paused with a topic
}

func (p *pauses) note(op string, invoked int64, names []string) {
	if len(names) > 0 {
		p.observer.consuming.note(op, invoked, fields{"partitions": names})
	}
}

// PauseFetchPartitions is that of kgo.Client, recorded.
func (c *Client) PauseFetchPartitions(partitions map[string][]int32) map[string][]int32 {
	invoked := now()
	paused := c.Client.PauseFetchPartitions(partitions)
	c.observed(func(*observer) { c.pauses.note("pause", invoked, named(partitions)) })
	return paused
}

// ResumeFetchPartitions is that of kgo.Client, recorded.
func (c *Client) ResumeFetchPartitions(partitions map[string][]int32) {
	invoked := now()
	// Records may come from here on.
	c.observed(func(*observer) { c.pauses.note("resume", invoked, named(partitions)) })
	c.Client.ResumeFetchPartitions(partitions)
}

// PauseFetchTopics is that of kgo.Client, recorded for the partitions that the member holds.
func (c *Client) PauseFetchTopics(topics ...string) []string {
	invoked := now()
	paused := c.Client.PauseFetchTopics(topics...)
	c.observed(func(o *observer) {
		c.pauses.mu.Lock()
		defer c.pauses.mu.Unlock()
		for _, topic := range topics {
			names := o.members.held(topic)
			c.pauses.topics[topic] = append(c.pauses.topics[topic], names...)
			c.pauses.note("pause", invoked, names)
		}
	})
	return paused
}

// ResumeFetchTopics is that of kgo.Client, recorded.
func (c *Client) ResumeFetchTopics(topics ...string) {
	invoked := now()
	c.observed(func(*observer) {
		c.pauses.mu.Lock()
		defer c.pauses.mu.Unlock()
		for _, topic := range topics {
			c.pauses.note("resume", invoked, c.pauses.topics[topic])
			delete(c.pauses.topics, topic)
		}
	})
	c.Client.ResumeFetchTopics(topics...)
}
