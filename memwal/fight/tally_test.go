//go:build unix

package fight

import (
	"fmt"
	"strings"
)

// tally counts what a fight was about.
type tally struct {
	rounds, opens, opened, takeovers int
	kills, killsOpening, killsOpened int // by SIGKILL; while Open ran; before the first put
	killsOwner, killsStopped         int // of the owner; of a stopped process
	stops, stopsOwner, stopsPast     int // by SIGSTOP; of the owner; of the owner, past checkAfter
	overslept                        int // stops in which another process took the shard
	held, heldKills                  int // times that requests were held; and their sender killed
	lostAnswers                      int // to puts
	readerKills, readerStops         int
	fencedWriters, fencedOpens       int
	woken, afterFence                int // tickets that a fence woke; rows put after it
	issued, acked, rows, recovered   int // rows
	entries, dead, deadOfKilled      int // live entries; dead objects; those of killed processes
	snapshots, refreshes, objects    int // looked at
	losses                           int
}

func (a *tally) add(b tally) {
	for _, f := range []struct{ to, from *int }{
		{&a.rounds, &b.rounds}, {&a.opens, &b.opens}, {&a.opened, &b.opened}, {&a.takeovers, &b.takeovers},
		{&a.kills, &b.kills}, {&a.killsOpening, &b.killsOpening}, {&a.killsOpened, &b.killsOpened},
		{&a.killsOwner, &b.killsOwner}, {&a.killsStopped, &b.killsStopped},
		{&a.stops, &b.stops}, {&a.stopsOwner, &b.stopsOwner}, {&a.stopsPast, &b.stopsPast}, {&a.overslept, &b.overslept},
		{&a.held, &b.held}, {&a.lostAnswers, &b.lostAnswers}, {&a.heldKills, &b.heldKills}, {&a.readerKills, &b.readerKills}, {&a.readerStops, &b.readerStops},
		{&a.fencedWriters, &b.fencedWriters}, {&a.fencedOpens, &b.fencedOpens}, {&a.woken, &b.woken}, {&a.afterFence, &b.afterFence},
		{&a.issued, &b.issued}, {&a.acked, &b.acked}, {&a.rows, &b.rows}, {&a.recovered, &b.recovered},
		{&a.entries, &b.entries}, {&a.dead, &b.dead}, {&a.deadOfKilled, &b.deadOfKilled},
		{&a.snapshots, &b.snapshots}, {&a.refreshes, &b.refreshes}, {&a.objects, &b.objects}, {&a.losses, &b.losses},
	} {
		*f.to += *f.from
	}
}

func (a tally) String() string {
	return strings.Join([]string{
		fmt.Sprintf("%d rounds; kills: %d (owner %d, in Open %d, right after it %d, stopped %d, with requests held %d), readers %d",
			a.rounds, a.kills, a.killsOwner, a.killsOpening, a.killsOpened, a.killsStopped, a.heldKills, a.readerKills),
		fmt.Sprintf("stops: %d (owner %d, past %v %d, meanwhile replaced %d), readers %d; requests held %d times, answers lost %d",
			a.stops, a.stopsOwner, checkAfter, a.stopsPast, a.overslept, a.readerStops, a.held, a.lostAnswers),
		fmt.Sprintf("opens: %d, returned %d, took over %d, fenced %d; writers fenced %d, tickets woken by that %d, rows put after it %d",
			a.opens, a.opened, a.takeovers, a.fencedOpens, a.fencedWriters, a.woken, a.afterFence),
		fmt.Sprintf("rows: issued %d, acknowledged %d, in the log %d, found by opens %d; entries %d, dead objects %d (%d of killed processes)",
			a.issued, a.acked, a.rows, a.recovered, a.entries, a.dead, a.deadOfKilled),
		fmt.Sprintf("snapshots %d, of these by readers %d; objects watched %d; losses %d", a.snapshots, a.refreshes, a.objects, a.losses),
	}, "\n")
}
