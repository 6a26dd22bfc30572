package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// A program is tried against a store that does as a script says.
func Example() {
	rules, err := faultstore.ParseScript(`
		op=put-if-absent key=log/* skip=1 after=500  # the second put is applied, its reply lost
		op=list shuffle                              # the first listing is in disorder
	`)
	if err != nil {
		fmt.Println(err)
		return
	}
	faults := faultstore.New(objstore.NewMemory(), 5) // any store, and a seed
	faults.Add(rules...)
	store := objstore.WithRetry(faults, objstore.RetryOptions{})

	ctx := context.Background()
	for _, key := range []string{"log/1", "log/2", "log/3", "log/4"} {
		_, err := store.PutIfAbsent(ctx, key, objstore.Body{[]byte(key)})
		fmt.Println("put", key, err)
	}
	for o, err := range faults.List(ctx, "log/") {
		fmt.Println("listed", o.Key, err)
	}
	injected := faults.Injected()
	for _, fault := range slices.Sorted(maps.Keys(injected)) {
		fmt.Println(fault, injected[fault])
	}
	// Output:
	// put log/1 <nil>
	// put log/2 objstore: put-if-absent "log/2": object exists
	// put log/3 <nil>
	// put log/4 <nil>
	// listed log/2 <nil>
	// listed log/1 <nil>
	// listed log/4 <nil>
	// listed log/4 <nil>
	// listed log/3 <nil>
	// after 1
	// doubled-list 1
	// unordered-list 1
}

// A process ends itself in the middle of its second put, once the store has
// applied it. A test that has started it looks at what it left behind.
func ExampleRule_hook() {
	faults := faultstore.New(objstore.NewMemory(), 1)
	faults.Add(faultstore.Rule{
		Ops:  []objstore.Op{objstore.OpPutIfAbsent},
		Skip: 1,
		OnApplied: func(r faultstore.Request) {
			fmt.Println("kill -9 after", r.Key) // syscall.Kill(os.Getpid(), syscall.SIGKILL)
		},
	})
	for _, key := range []string{"log/1", "log/2", "log/3"} {
		_, _ = faults.PutIfAbsent(context.Background(), key, nil)
	}
	// Output: kill -9 after log/2
}

// A process dies while a put is on its way, and the put lands after others.
func ExampleRule_late() {
	disk := objstore.NewMemory()
	faults := faultstore.New(disk, 1) // what the process uses that dies
	faults.Add(faultstore.Rule{Key: "log/2", Late: 10 * time.Millisecond})

	ctx := context.Background()
	_, err := faults.PutIfAbsent(ctx, "log/2", nil) // whose answer is unknown: stop using faults here
	fmt.Println(errors.Is(err, objstore.ErrAmbiguous))
	_, err = disk.Head(ctx, "log/2") // its successor uses disk
	fmt.Println(errors.Is(err, objstore.ErrNotExist))

	faults.Wait() // until it has arrived; it counts if its place was still empty
	_, err = disk.Head(ctx, "log/2")
	fmt.Println(err, faults.Injected())
	// Output:
	// true
	// true
	// <nil> map[late:1]
}

// Everything that a correct store may do, at a rate, for a program that
// retries; how to say it in a report of a bug.
func ExampleChaos() {
	faults := faultstore.New(objstore.NewMemory(), 1)
	remove := faults.Add(faultstore.Chaos(0.01)...)
	defer remove()
	faults.SetLogSize(0) // a long run keeps counts alone
	for _, rule := range faultstore.Chaos(0.01)[:3] {
		fmt.Println(rule)
	}
	// Output:
	// count=always chance=0.01 before=503
	// count=always chance=0.01 before=429
	// count=always chance=0.01 before=500
}
