package recorder

import (
	"context"
	"reflect"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type rebalance = func(context.Context, *kgo.Client, map[string][]int32)
type committing = func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error)

// OnPartitionsAssigned is kgo's option of this name, and recorded.
func OnPartitionsAssigned(call func(context.Context, *kgo.Client, map[string][]int32)) kgo.GroupOpt {
	return kgo.OnPartitionsAssigned(assigned(call))
}

// OnPartitionsRevoked is kgo's option of this name, and recorded.
func OnPartitionsRevoked(call func(context.Context, *kgo.Client, map[string][]int32)) kgo.GroupOpt {
	return kgo.OnPartitionsRevoked(revoked(call))
}

// OnPartitionsLost is kgo's option of this name, and recorded.
func OnPartitionsLost(call func(context.Context, *kgo.Client, map[string][]int32)) kgo.GroupOpt {
	return kgo.OnPartitionsLost(lost(call))
}

// AutoCommitCallback is kgo's option of this name, and recorded.
func AutoCommitCallback(call func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error)) kgo.GroupOpt {
	return kgo.AutoCommitCallback(committed(call))
}

// callbacksFor are the recorder's callbacks, for a client that takes such. They come before the
// application's options: what it has of its own stays.
//
// A session of transactions does more than to hand callbacks on, and depends on which there are.
func callbacksFor(opts []kgo.Opt, o *observer) []kgo.Opt {
	if !joins(opts) || transacts(opts) {
		return nil
	}
	return []kgo.Opt{
		// Commits that the client makes of its own accord have its own context.
		kgo.WithContext(kgo.PreCommitFnContext(context.Background(), o.automatic())),
		kgo.OnPartitionsAssigned(assigned(nil)),
		kgo.OnPartitionsRevoked(revoked(nil)),
		kgo.OnPartitionsLost(lost(nil)),
		kgo.AutoCommitCallback(committed(nil)),
	}
}

// seesRebalances says whether a client's callbacks are those below.
func seesRebalances(cl *kgo.Client) bool {
	return same(cl.OptValue(kgo.OnPartitionsAssigned), assigned(nil)) &&
		same(cl.OptValue(kgo.OnPartitionsRevoked), revoked(nil)) &&
		same(cl.OptValue(kgo.OnPartitionsLost), lost(nil))
}

func same(one, other any) bool {
	return reflect.ValueOf(one).Pointer() == reflect.ValueOf(other).Pointer()
}

// A function that is inlined has its closures elsewhere, and none of them would be the same.
//
//go:noinline
func assigned(call rebalance) rebalance {
	return func(ctx context.Context, cl *kgo.Client, partitions map[string][]int32) {
		observed(cl, func(m *members) { m.assigned(partitions) })
		if call != nil {
			call(ctx, cl, partitions)
		}
	}
}

//go:noinline
func revoked(call rebalance) rebalance {
	return func(ctx context.Context, cl *kgo.Client, partitions map[string][]int32) {
		leaving := leave(cl)
		// The line follows what is still done with the partitions.
		defer leaving("revoked", clone(partitions))
		if call != nil {
			call(ctx, cl, partitions)
		} else {
			observed(cl, (*members).commitAsByDefault)
		}
	}
}

//go:noinline
func lost(call rebalance) rebalance {
	return func(ctx context.Context, cl *kgo.Client, partitions map[string][]int32) {
		leaving := leave(cl)
		defer leaving("lost", clone(partitions))
		if call != nil {
			call(ctx, cl, partitions)
		}
	}
}

//go:noinline
func committed(call committing) committing {
	return func(cl *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		observed(cl, func(m *members) { m.committed(asked, answer, err) })
		if call != nil {
			call(cl, asked, answer, err)
		} else {
			complain(cl, answer, err)
		}
	}
}

// observed calls the recorder of a client that is recorded.
func observed(cl *kgo.Client, call func(*members)) {
	if o := observerOf(cl); o != nil && o.consuming != nil {
		defer o.guard()
		call(o.members)
	}
}

// leave begins the end of an ownership; the function that it returns writes it down.
func leave(cl *kgo.Client) func(op string, partitions map[string][]int32) {
	invoked := now()
	var held fields
	observed(cl, func(m *members) { held = m.membership() })
	return func(op string, partitions map[string][]int32) {
		observed(cl, func(m *members) { m.left(op, invoked, partitions, held) })
	}
}

// automatic sees a commit that the client makes of its own accord, before it is sent.
//
//go:noinline
func (o *observer) automatic() func(*kmsg.OffsetCommitRequest) error {
	return func(asked *kmsg.OffsetCommitRequest) error {
		defer o.guard()
		if o.consuming != nil {
			o.members.asked(asked)
		}
		return nil
	}
}

func clone(partitions map[string][]int32) map[string][]int32 {
	copied := make(map[string][]int32, len(partitions))
	for topic, numbers := range partitions {
		copied[topic] = append([]int32(nil), numbers...)
	}
	return copied
}
