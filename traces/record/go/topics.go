package recorder

import (
	"context"
	"encoding/base64"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How long the client is asked for the id of a topic, beside the application.
const patience = 5 * time.Second

// topics are those that a client uses. Each is asked for its id once, by a goroutine: the
// application does not wait for it.
type topics struct {
	ask   *kgo.Client
	known sync.Map
}

func (t *topics) use(process *recording, topic string) {
	if _, known := t.known.Load(topic); known {
		return
	}
	if _, known := t.known.LoadOrStore(topic, true); !known && topic != "" {
		go t.learn(process, topic)
	}
}

func (t *topics) learn(process *recording, topic string) {
	ctx, cancel := context.WithTimeout(t.ask.Context(), patience)
	defer cancel()
	asked := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	asked.Topics = append(asked.Topics, one)
	invoked := now()
	found, err := asked.RequestWith(ctx, t.ask)
	if err != nil {
		return
	}
	for _, one := range found.Topics {
		if one.ErrorCode == 0 && one.TopicID != [16]byte{} {
			id := base64.RawURLEncoding.EncodeToString(one.TopicID[:])
			about := fields{"topics": []string{topic}, "topic_ids": map[string]string{topic: id}}
			process.note("describe_topics", invoked, about)
		}
	}
}
