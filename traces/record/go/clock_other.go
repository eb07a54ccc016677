//go:build !linux

package recorder

import "time"

func monotonic() (base int64, began time.Time, ok bool) {
	return 0, began, false
}
