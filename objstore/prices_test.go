package objstore_test

import (
	"testing"

	"github.com/memwal/memwal-go/objstore"
)

func TestCostByRequestClass(t *testing.T) {
	requests := func(n uint64) objstore.OpValues { return objstore.OpValues{Requests: n} }
	v := objstore.CounterValues{
		Get: requests(1_000), GetRange: requests(500), Head: requests(500), List: requests(3_000),
		Put: requests(1_000), PutIfAbsent: objstore.OpValues{Requests: 4_000, Errors: 1_000}, Delete: requests(8_000),
		BytesRead: 3 << 30, BytesWritten: 1 << 40,
	}
	// Powers of two, so that every product is exact.
	p := objstore.Prices{ClassA: 0.5, ClassB: 0.25, Delete: 0.125, Egress: 2}
	want := objstore.Cost{
		ClassA: objstore.Charge{Requests: 8_000, Dollars: 4}, ClassB: objstore.Charge{Requests: 2_000, Dollars: 0.5},
		Delete: objstore.Charge{Requests: 8_000, Dollars: 1}, Egress: 6, Dollars: 11.5,
	}
	if got := v.Cost(p); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (objstore.CounterValues{}).Cost(p); got != (objstore.Cost{}) {
		t.Errorf("nothing costs %+v", got)
	}
	if got := v.Cost(objstore.Prices{}); got.Dollars != 0 || got.ClassA.Requests != 8_000 {
		t.Errorf("a store without prices: %+v", got)
	}
}

// TestListPrices pins the figures that the documentation gives: five dollars a
// million puts or pages of a listing, forty cents a million reads.
func TestListPrices(t *testing.T) {
	p := objstore.S3Standard()
	million := objstore.OpValues{Requests: 1_000_000}
	for name, tc := range map[string]struct {
		v    objstore.CounterValues
		want float64
	}{
		"put": {objstore.CounterValues{PutIfAbsent: million}, 5}, "list": {objstore.CounterValues{List: million}, 5},
		"get": {objstore.CounterValues{Get: million}, 0.4}, "head": {objstore.CounterValues{Head: million}, 0.4},
		"delete": {objstore.CounterValues{Delete: million}, 0}, "read in the region": {objstore.CounterValues{BytesRead: 1 << 40}, 0},
	} {
		if got := v(tc.v, p); got != tc.want {
			t.Errorf("a million of %s: %v dollars, want %v", name, got, tc.want)
		}
	}
}

func v(c objstore.CounterValues, p objstore.Prices) float64 { return c.Cost(p).Dollars }
