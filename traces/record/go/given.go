package recorder

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options of franz-go do not show their values before there is a client. What they hold is seen by
// whether they are still valid beside a contradiction.

// given says whether valid options have something of which another option is a contradiction.
func given(opts []kgo.Opt, contradiction ...kgo.Opt) bool {
	return kgo.ValidateOpts(opts...) == nil && kgo.ValidateOpts(append(opts[:len(opts):len(opts)], contradiction...)...) != nil
}

// transacts says whether options of a client name a transactional id.
func transacts(opts []kgo.Opt) bool {
	return given(opts, kgo.DisableIdempotentWrite())
}

// joins says whether options of a client name a consumer group.
func joins(opts []kgo.Opt) bool {
	callback := kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {})
	return kgo.ValidateOpts(opts...) == nil && !given(opts, callback)
}
