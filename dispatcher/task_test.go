package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// journal records what happened and when, in milliseconds since it was made.
type journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) add(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%d %s", time.Since(j.start).Milliseconds(), what))
}

func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !reflect.DeepEqual(j.lines, lines) {
		t.Errorf("got  %q\nwant %q", j.lines, lines)
	}
}

func post[M any](t *testing.T, task *Task[M], msg M) {
	t.Helper()
	if err := task.Post(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

func stop[M any](t *testing.T, task *Task[M], drain bool) {
	t.Helper()
	if err := task.Stop(drain); err != nil {
		t.Error(err)
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestV14_BusyTickerDoesNotStarveMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		task := Start(t.Context(), Options[string]{
			Interval: ms(10),
			Handler: Funcs[string]{
				OnMessage: func(_ context.Context, m string) error { j.add(m); return nil },
				OnTick:    func(context.Context) error { j.add("tick"); time.Sleep(ms(35)); return nil }, // always late
			},
		})
		time.Sleep(ms(20))
		for _, m := range []string{"a", "b", "c"} {
			post(t, task, m)
		}
		time.Sleep(ms(40))
		// The tick at 10 ran until 45; the three that it missed do not pile up:
		// the next one is an interval later.
		j.want(t, "10 tick", "45 a", "45 b", "45 c", "55 tick")
		stop(t, task, false)
	})
}

func TestV14_MissedTicksDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		task := Start(t.Context(), Options[string]{
			Interval: ms(100),
			Handler: Funcs[string]{
				OnMessage: func(_ context.Context, m string) error { j.add(m); time.Sleep(ms(450)); return nil },
				OnTick:    func(context.Context) error { j.add("tick"); return nil },
			},
		})
		time.Sleep(ms(50))
		post(t, task, "long")
		time.Sleep(ms(800) - ms(50) + ms(1))
		// 50 to 500 misses the ticks of 100 to 400 and all of them are dropped.
		j.want(t, "50 long", "600 tick", "700 tick", "800 tick")
		stop(t, task, false)
	})
}

// A mailbox that never gets empty must neither stop the ticks altogether, nor
// be held up by them.
func TestV14_BusyMailboxDoesNotStarveTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ticks, messages int
		task := Start(t.Context(), Options[int]{
			Interval: ms(10), Mailbox: 4,
			Handler: Funcs[int]{
				OnMessage: func(context.Context, int) error { messages++; time.Sleep(ms(3)); return nil },
				OnTick:    func(context.Context) error { ticks++; return nil },
			},
		})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for task.Post(t.Context(), 0) == nil {
				}
			})
		}
		time.Sleep(time.Second)
		if err := task.Stop(false); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if ticks < 1000/40 || ticks > 1000/10 {
			t.Errorf("%d ticks in a second of an interval of 10 ms under load", ticks)
		}
		if messages < 300 {
			t.Errorf("%d messages of 3 ms in a second", messages)
		}
	})
}

func TestV14_MessagesDoNotStarveShutdown(t *testing.T) {
	for _, how := range []string{"stop", "context"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var handled, discarded []int
				task := Start(ctx, Options[int]{
					Mailbox: 100,
					Handler: Funcs[int]{OnMessage: func(ctx context.Context, m int) error {
						handled = append(handled, m)
						select {
						case <-ctx.Done():
						case <-time.After(time.Second):
						}
						return ctx.Err()
					}},
					OnError:   func(err error) { t.Errorf("the stop itself was reported: %v", err) },
					OnDiscard: func(m int) { discarded = append(discarded, m) },
				})
				for i := range 100 {
					post(t, task, i)
				}
				time.Sleep(ms(1500))
				start := time.Now()
				if how == "stop" {
					stop(t, task, false)
				} else {
					cancel()
					<-task.Done()
				}
				if time.Since(start) != 0 {
					t.Errorf("the shutdown took %v", time.Since(start))
				}
				if len(handled) != 2 || len(discarded) != 98 || discarded[0] != 2 || discarded[97] != 99 {
					t.Errorf("handled %v, discarded %v", handled, discarded)
				}
				if err := task.Post(t.Context(), 0); !errors.Is(err, ErrStopped) {
					t.Errorf("a message after the end: %v", err)
				}
			})
		})
	}
}

func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		task := Start(t.Context(), Options[string]{
			Interval: ms(10),
			Handler: Funcs[string]{
				OnMessage: func(ctx context.Context, m string) error { time.Sleep(ms(20)); j.add(m); return ctx.Err() },
				OnWake:    func(context.Context) error { j.add("wake"); return nil },
				OnTick:    func(context.Context) error { j.add("tick"); return nil },
			},
			OnDiscard: func(m string) { t.Errorf("%s was discarded", m) },
		})
		for _, m := range []string{"a", "b"} {
			post(t, task, m)
		}
		task.Wake()
		post(t, task, "c")
		stop(t, task, true)
		j.want(t, "20 a", "40 b", "40 wake", "60 c")
		stop(t, task, true)
		stop(t, task, false)
	})
}

func TestStopThatDiscardsCutsADrainShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, discarded int
		task := Start(t.Context(), Options[int]{
			Handler:   Funcs[int]{OnMessage: func(context.Context, int) error { handled++; time.Sleep(time.Second); return nil }},
			OnDiscard: func(int) { discarded++ },
		})
		for i := range 10 {
			post(t, task, i)
		}
		go func() { _ = task.Stop(true) }()
		time.Sleep(ms(2500))
		stop(t, task, false)
		if handled != 3 || discarded != 7 {
			t.Errorf("%d handled, %d discarded", handled, discarded)
		}
	})
}

func TestPostWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var got []int
		task := Start(t.Context(), Options[int]{
			Mailbox: 2,
			Handler: Funcs[int]{OnMessage: func(_ context.Context, m int) error { <-release; got = append(got, m); return nil }},
		})
		post(t, task, 0)
		synctest.Wait() // 0 is being handled, the mailbox is empty
		post(t, task, 1)
		post(t, task, 2)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := task.Post(ctx, 3); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a full mailbox: %v", err)
		}
		if n := pending(task); n != 2 {
			t.Errorf("%d messages wait, want 2", n)
		}
		hung := make(chan error)
		go func() { hung <- task.Post(context.Background(), 4) }()
		synctest.Wait()
		close(release)
		if err := <-hung; err != nil {
			t.Error(err)
		}
		stop(t, task, true)
		if !reflect.DeepEqual(got, []int{0, 1, 2, 4}) {
			t.Errorf("handled %v", got)
		}
	})
}

func TestWakesCoalesceAndKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var task *Task[string]
		again := true
		task = Start(t.Context(), Options[string]{Handler: Funcs[string]{
			OnMessage: func(_ context.Context, m string) error { j.add(m); time.Sleep(ms(1)); return nil },
			OnWake: func(context.Context) error {
				j.add("wake")
				if again {
					again = false
					task.Wake() // one that comes while a wake is handled is not lost
				}
				return nil
			},
		}})
		post(t, task, "a")
		for range 100 {
			task.Wake()
		}
		post(t, task, "b")
		time.Sleep(ms(10))
		j.want(t, "0 a", "1 wake", "1 b", "2 wake")
		stop(t, task, true)
		task.Wake()
	})
}

func TestResetTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var task *Task[time.Duration]
		task = Start(t.Context(), Options[time.Duration]{
			Interval: ms(100),
			Handler: Funcs[time.Duration]{
				OnMessage: func(_ context.Context, d time.Duration) error { task.ResetTicker(d); return nil },
				OnTick:    func(context.Context) error { j.add("tick"); return nil },
			},
		})
		time.Sleep(ms(150))
		post(t, task, ms(70))
		time.Sleep(ms(400))
		j.want(t, "100 tick", "220 tick", "320 tick", "420 tick", "520 tick")
		stop(t, task, false)
	})
}

func TestResetTickerWithoutInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var task *Task[int]
		task = Start(t.Context(), Options[int]{Handler: Funcs[int]{
			OnMessage: func(_ context.Context, busy int) error {
				task.ResetTicker(ms(10))
				time.Sleep(ms(busy))
				return nil
			},
			OnTick: func(context.Context) error { j.add("tick"); return nil },
		}})
		time.Sleep(time.Hour)
		j.start = time.Now()
		post(t, task, 0)
		time.Sleep(ms(100))
		post(t, task, 50) // falls due while the task is busy: late, not lost
		time.Sleep(time.Hour)
		j.want(t, "10 tick", "150 tick")
		stop(t, task, false)
	})
}

func TestG11_HandlerErrorIsReportedAndTheLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		var reported []error
		task := Start(t.Context(), Options[int]{
			Name: "tester", Interval: ms(10),
			Handler: Funcs[int]{
				OnMessage: func(context.Context, int) error { return bad },
				OnWake:    func(context.Context) error { return bad },
				OnTick:    func(context.Context) error { return bad },
			},
			OnError: func(err error) {
				if !errors.Is(err, bad) {
					t.Errorf("reported %v", err)
				}
				reported = append(reported, err)
			},
		})
		post(t, task, 1)
		post(t, task, 2)
		task.Wake()
		time.Sleep(ms(11))
		err := task.Stop(true)
		if !slices.Equal(reported, []error{bad, bad, bad, bad}) { // the very error, not wrapped
			t.Errorf("reported %q", reported)
		}
		want := strings.Join([]string{
			`dispatcher: task "tester", message: bad`, `dispatcher: task "tester", message: bad`,
			`dispatcher: task "tester", wake: bad`, `dispatcher: task "tester", tick: bad`,
		}, "\n")
		if !errors.Is(err, bad) || err.Error() != want {
			t.Errorf("Stop returned %v", err)
		}
		if again := task.Stop(false); again == nil || again.Error() != err.Error() {
			t.Errorf("the second Stop returned %v", again)
		}
	})
}

func TestG11_ErrorsKeptAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		task := Start(t.Context(), Options[int]{
			Handler: Funcs[int]{OnMessage: func(_ context.Context, m int) error { return fmt.Errorf("bad %d", m) }},
			Logger:  slog.New(slog.NewTextHandler(&logged, nil)),
		})
		for i := range 1000 {
			post(t, task, i)
		}
		err := task.Stop(true)
		if n := strings.Count(err.Error(), "bad"); n != maxErrors || !strings.Contains(err.Error(), "984 more errors") {
			t.Errorf("%d errors kept: %v", n, err)
		}
		if n := strings.Count(logged.String(), "bad"); n != 984 {
			t.Errorf("%d errors logged", n)
		}
	})
}

func TestG11_PanicIsContainedAndNobodyHangs(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name string
		burn func()
		is   error
	}{
		{"error", func() { panic(cause) }, cause},
		{"text", func() { panic("text") }, ErrStopped},
		{"nil", func() { panic(nil) }, ErrStopped},
		{"runtime", func() { var p *int; *p = 1 }, ErrStopped},
		{"goexit", runtime.Goexit, ErrStopped},
	} {
		for _, where := range []string{"message", "wake", "tick", "report"} {
			t.Run(c.name+"/"+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { panicWhere(t, where, c.burn, c.is) })
			})
		}
	}
}

// panicWhere burns the loop at one place while the mailbox is full and posters
// wait.
func panicWhere(t *testing.T, where string, burn func(), is error) {
	var panicked []*PanicError
	var discarded []int
	var task *Task[int]
	begin := make(chan struct{})
	handle := func(here string) error {
		<-begin
		if where == here {
			burn()
		}
		return errors.New("bad")
	}
	task = Start(t.Context(), Options[int]{
		Name: "tester", Interval: time.Second, Mailbox: 2,
		Handler: Funcs[int]{
			OnMessage: func(context.Context, int) error { return handle("message") },
			OnWake:    func(context.Context) error { return handle("wake") },
			OnTick:    func(context.Context) error { return handle("tick") },
		},
		OnError:   func(error) { _ = handle("report") },
		OnDiscard: func(m int) { discarded = append(discarded, m); panic("a callback that panics, too") },
		OnPanic: func(err *PanicError) {
			panicked = append(panicked, err)
			if err := task.Post(context.Background(), 0); !errors.Is(err, ErrStopped) { // must not hang, the mailbox is full
				t.Errorf("Post inside OnPanic: %v", err)
			}
			panic("a callback that panics, too")
		},
	})
	switch where {
	case "wake":
		task.Wake()
	case "tick":
		time.Sleep(ms(1001))
	default:
		post(t, task, 0)
	}
	synctest.Wait() // the handler is at work
	post(t, task, 1)
	post(t, task, 2)
	refused := make(chan error)
	for range 3 {
		go func() { refused <- task.Post(context.Background(), 3) }()
	}
	synctest.Wait() // the posters wait
	close(begin)
	for range 3 {
		if err := <-refused; !errors.Is(err, ErrStopped) {
			t.Errorf("a poster that waited got %v", err)
		}
	}
	<-task.Done()
	if !reflect.DeepEqual(discarded, []int{1, 2}) {
		t.Errorf("discarded %v", discarded)
	}
	if len(panicked) != 1 || panicked[0].Task != "tester" || !strings.Contains(string(panicked[0].Stack), "panicWhere") {
		t.Fatalf("OnPanic was told %v", panicked)
	}
	err := task.Stop(true)
	if perr, ok := errors.AsType[*PanicError](err); !ok || perr != panicked[0] {
		t.Errorf("Stop returned %v", err)
	}
	err = task.Post(t.Context(), 4)
	if _, ok := errors.AsType[*PanicError](err); !ok || !errors.Is(err, ErrStopped) || !errors.Is(err, is) {
		t.Errorf("a message after the panic: %v", err)
	}
}

// What was accepted is handled or discarded, what was not accepted is neither,
// however posters and the end of the task meet.
func TestG11_PostBesideTheEnd(t *testing.T) {
	for _, how := range []string{"drain", "discard", "context", "panic"} {
		t.Run(how, func(t *testing.T) {
			for range 300 {
				postBesideTheEnd(t, how)
			}
		})
	}
}

func postBesideTheEnd(t *testing.T, how string) {
	const bomb = -1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var accepted, handled, discarded atomic.Int64
	task := Start(ctx, Options[int]{
		Mailbox: 3,
		Handler: Funcs[int]{OnMessage: func(_ context.Context, m int) error {
			handled.Add(1)
			if m == bomb {
				panic("bomb")
			}
			return nil
		}},
		OnDiscard: func(int) { discarded.Add(1) },
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for task.Post(t.Context(), 0) == nil {
				accepted.Add(1)
				task.Wake()
			}
		})
	}
	runtime.Gosched()
	switch how {
	case "context":
		cancel()
	case "panic":
		post(t, task, bomb)
		accepted.Add(1)
	default:
		stop(t, task, how == "drain")
	}
	<-task.Done()
	wg.Wait()
	if handled.Load()+discarded.Load() != accepted.Load() || how == "drain" && discarded.Load() > 0 || pending(task) > 0 {
		t.Fatalf("accepted %d, handled %d, discarded %d", accepted.Load(), handled.Load(), discarded.Load())
	}
}

func TestMailboxKeepsTheOrderOfEachPoster(t *testing.T) {
	const posters, each = 8, 500
	var last [posters]int
	task := Start(t.Context(), Options[[2]int]{
		Mailbox: 5,
		Handler: Funcs[[2]int]{OnMessage: func(_ context.Context, m [2]int) error {
			if m[1] != last[m[0]] {
				return fmt.Errorf("poster %d: got %d, want %d", m[0], m[1], last[m[0]])
			}
			last[m[0]]++
			return nil
		}},
	})
	var wg sync.WaitGroup
	for p := range posters {
		wg.Go(func() {
			for i := range each {
				if err := task.Post(t.Context(), [2]int{p, i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop(t, task, true)
	for p, n := range last {
		if n != each {
			t.Errorf("poster %d: %d of %d handled", p, n, each)
		}
	}
}

func TestContextOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		var label string
		task := Start(t.Context(), Options[int]{
			Name: "labelled",
			Handler: Funcs[int]{OnMessage: func(ctx context.Context, _ int) error {
				label, _ = pprof.Label(ctx, "memwal.task")
				<-ctx.Done()
				cause = context.Cause(ctx)
				return fmt.Errorf("given up: %w", cause)
			}},
		})
		post(t, task, 0)
		synctest.Wait()
		task.Cancel()
		<-task.Done()
		stop(t, task, true)
		if label != "labelled" || !errors.Is(cause, ErrStopped) {
			t.Errorf("label %q, cause %v", label, cause)
		}
	})
}

func TestStartWithoutHandlerPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Start(t.Context(), Options[int]{})
}

func Example() {
	sum := 0
	task := Start(context.Background(), Options[int]{
		Name:    "sum",
		Handler: Funcs[int]{OnMessage: func(_ context.Context, n int) error { sum += n; return nil }},
	})
	for n := range 5 {
		if err := task.Post(context.Background(), n); err != nil {
			fmt.Println(err)
		}
	}
	if err := task.Stop(true); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sum)
	// Output: 10
}

func BenchmarkPost(b *testing.B) {
	b.ReportAllocs()
	task := Start(b.Context(), Options[int]{Handler: Funcs[int]{}})
	for b.Loop() {
		if err := task.Post(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
	if err := task.Stop(true); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkWake(b *testing.B) {
	b.ReportAllocs()
	task := Start(b.Context(), Options[int]{Handler: Funcs[int]{}})
	for b.Loop() {
		task.Wake()
	}
	if err := task.Stop(true); err != nil {
		b.Fatal(err)
	}
}

// pending is the number of messages in the mailbox.
func pending[M any](t *Task[M]) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.queue.len()
}
