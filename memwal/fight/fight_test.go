//go:build unix

package fight

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/miniotest"
)

var (
	fightTime = flag.Duration("fight.time", 0, "how long processes fight, for each store (default 60s, with -short 5s, under -race 20s)")
	fightSeed = flag.Uint64("fight.seed", 0, "seed of what is drawn in a fight; when a signal arrives is still up to the machine (default: another one each time)")
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobVariable); job != "" {
		runChild(job)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// length is how long a fight lasts.
func length() time.Duration {
	switch {
	case *fightTime > 0:
		return *fightTime
	case raceEnabled:
		return 20 * time.Second
	case testing.Short():
		return 5 * time.Second
	}
	return time.Minute
}

func seedOf(t testing.TB) uint64 {
	seed := cmp.Or(*fightSeed, uint64(time.Now().UnixNano()))
	t.Logf("-fight.seed %d", seed)
	return seed
}

// onStores runs a test on a local folder and on an S3 service, side by side.
func onStores(t *testing.T, test func(t *testing.T, url string)) {
	urls := map[string]string{"folder": "file://" + t.TempDir() + "/store"}
	if !testing.Short() {
		urls["MinIO"] = miniotest.StoreURL(t)
	}
	for _, name := range []string{"folder", "MinIO"} {
		t.Run(name, func(t *testing.T) {
			if urls[name] == "" {
				t.Skip("no S3 service with -short")
			}
			t.Parallel()
			test(t, urls[name])
		})
	}
}

// Bounds of a fight. A round ends early enough for its log to be read in a moment;
// the next one has another shard, with and without a primary key in turn.
const (
	longestRound  = 12 * time.Second
	shortestRound = 3 * time.Second
	// extraTime is how much longer a fight goes on until all has happened that it is
	// about, on a machine that is busy with other things.
	extraTime = 3 * time.Minute
)

// TestFight lets processes fight for a shard. Each opens it, puts until it is
// fenced, and opens it again at once. Meanwhile they are killed, stopped and
// continued at random moments; requests that a dead process has sent to an S3
// service land later. One process reads. In the end what all of them have said
// is compared with the log.
//
// The subtests are the findings, by behaviour. Those of a letter I are the invariants
// of that number: I3 order and recency, I5 nothing acknowledged is lost, I6 nothing is there twice,
// I12 nothing refused is there.
func TestFight(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		seed := seedOf(t)
		a := newArena(t, url, seed)
		r := rand.New(rand.NewPCG(seed, 1))
		d := length()
		var total tally
		found := map[string][]string{}
		until := time.Now().Add(d)
		for n := 0; ; n++ {
			if m := total.missing(canProxy(url)); n >= 2 && !time.Now().Before(until) {
				if m == "" || time.Now().After(until.Add(extraTime)) {
					break
				}
				t.Logf("it goes on after round %d: %s has not happened yet", n, m)
			}
			round := &round{
				arena: a, shard: uuid.New(), keyed: n%2 == 0, slots: 2 + r.IntN(4)/3,
				tuning: drawn(r), over: make(chan struct{}), opened: make(chan struct{}),
			}
			a.seed = r.Uint64()
			round.fightOn(min(max(d/5, shortestRound), longestRound))
			total.add(round.tally)
			for _, f := range round.found {
				found[f.id] = append(found[f.id], f.text)
			}
			if len(found) > 0 {
				t.Logf("round %d: %v", n, round)
				break
			}
		}
		t.Logf("%s", total)
		if m := total.missing(canProxy(url)); m != "" && len(found) == 0 {
			t.Errorf("the fight was too tame: %s never happened", m)
		}
		if total.losses > 0 && len(found["I5"]) == 0 {
			t.Errorf("%d rows were lost", total.losses)
		}
		report(t, found)
	})
}

// behaviours of a fight, and what they say.
var behaviours = []struct{ id, says string }{
	{"I3", "order and newest versions"},
	{"I5", "nothing acknowledged is lost"},
	{"I6", "nothing is there twice"},
	{"I12", "nothing refused is there"},
	{"F01", "nobody overwrites another's entry or manifest"},
	{"F02", "each writer has its fence"},
	{"F10", "fenced is fenced for ever"},
	{"Q07", "snapshots can be read"},
	{"R13", "killed in Open or after it, and opened again"},
	{"V09", "a fence wakes every waiter and says who"},
	{"reader", "readers show what was acknowledged"},
	{"errors", "errors that nothing explains"},
	{"open", "opens that nothing explains"},
	{"child", "children end when they are told to, and not before"},
	{"harness", "the test itself"},
}

// mostFindings of one behaviour are printed: more of them say no more.
const mostFindings = 5

func report(t *testing.T, found map[string][]string) {
	for _, b := range behaviours {
		t.Run(b.id+" "+b.says, func(t *testing.T) {
			for i, f := range found[b.id] {
				if i == mostFindings {
					t.Errorf("… and %d more", len(found[b.id])-i)
					break
				}
				t.Error(f)
			}
		})
	}
}

// missing names something that a fight is about and that has not happened yet.
func (a tally) missing(proxied bool) string {
	for _, c := range []struct {
		what string
		n    int
	}{
		{"a kill", a.kills}, {"a kill of the owner", a.killsOwner}, {"a kill in Open", a.killsOpening},
		{"a kill of a stopped process", a.killsStopped},
		{"a stop of the owner", a.stopsOwner}, {"a long stop of the owner", a.stopsPast},
		{"a takeover from a stopped owner", a.overslept}, {"a takeover", a.takeovers},
		{"a fenced writer", a.fencedWriters}, {"a ticket woken by a fence", a.woken}, {"a put after a fence", a.afterFence},
		{"an acknowledged row", a.acked}, {"a row found by an open", a.recovered},
		{"a snapshot", a.snapshots}, {"a refresh", a.refreshes}, {"a watched object", a.objects},
		{"a killed or stopped reader", a.readerKills + a.readerStops},
	} {
		if c.n == 0 {
			return c.what
		}
	}
	if proxied && a.heldKills == 0 {
		return "a kill while requests were held"
	}
	if proxied && a.lostAnswers == 0 {
		return "a lost answer"
	}
	if proxied && a.dead == 0 {
		return "a dead object"
	}
	return ""
}
