package recorder

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic pairs a time of CLOCK_MONOTONIC with one of the runtime's clock, which is the same one
// and does not say its number. Of several pairs it takes that which was read the fastest.
func monotonic() (base int64, began time.Time, ok bool) {
	fastest := time.Hour
	for range 50 {
		before := time.Now()
		var read unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &read); err != nil {
			return 0, began, false
		}
		if took := time.Since(before); took < fastest {
			fastest, base, began = took, read.Nano(), before
		}
	}
	return base, began, true
}
