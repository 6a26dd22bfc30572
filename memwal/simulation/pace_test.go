package simulation

// pace is how often each process acts, and what happens beside them.
type pace struct {
	// Shares of 100 steps. The writers have the rest.
	readers    int
	recycler   int
	orphans    int // puts of the dead
	pauses     int // up to seconds pass
	longPauses int // up to hours pass

	// Shares of 100 steps of a writer.
	crash int // it crashes, while several puts are on the wire; else it does so once in 100
	floor int // it moves the floor

	// stragglers is the chance of a put to be slow.
	stragglers float64

	// stretch is for about how many steps a writer acts alone, while the others stall;
	// 0: they act in turns.
	stretch int
}

// paces are those that runs choose from. Each finds what others do not.
var paces = []struct {
	name string
	pace
}{
	{"even", pace{readers: 20, recycler: 8, orphans: 5, pauses: 5, longPauses: 1, crash: 1, floor: 3}},
	{"stretches", pace{readers: 20, recycler: 8, orphans: 5, pauses: 5, longPauses: 1, crash: 1, floor: 3, stretch: 25}},
	// Many die with puts on the wire, which land later, and what they leave behind is
	// recycled soon.
	{"late puts", pace{readers: 5, recycler: 15, orphans: 10, pauses: 2, crash: 10, floor: 8, stragglers: 0.1, stretch: 50}},
	// Requests outlast all that is kept.
	{"slow", pace{readers: 5, recycler: 15, orphans: 3, pauses: 3, longPauses: 4, crash: 1, floor: 8, stretch: 50}},
}
