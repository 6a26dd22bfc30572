package keys

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

type userID int64

// same: two Go values that are the same value of the column.
func TestValuesConvertExactly(t *testing.T) {
	at := time.Date(2024, 2, 29, 13, 14, 15, 123456000, time.FixedZone("x", 3600))
	midnight := time.Date(2024, 2, 29, 0, 0, 0, 0, time.FixedZone("x", -7200))
	days := arrow.Date32(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	for _, c := range []struct {
		typ       arrow.DataType
		value     any
		canonical any
	}{
		{arrow.PrimitiveTypes.Int64, userID(7), int64(7)},
		{arrow.PrimitiveTypes.Int64, uint8(7), int64(7)},
		{arrow.PrimitiveTypes.Int8, uint64(127), int8(127)},
		{arrow.PrimitiveTypes.Uint64, 9, uint64(9)},
		{arrow.PrimitiveTypes.Uint64, uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{arrow.PrimitiveTypes.Float64, 3, 3.0},
		{arrow.PrimitiveTypes.Float64, float32(0.5), 0.5},
		{arrow.PrimitiveTypes.Float64, uint64(1 << 63), float64(1 << 63)},
		{arrow.PrimitiveTypes.Float64, int64(math.MinInt64), -float64(1 << 63)},
		{arrow.PrimitiveTypes.Float32, 0.5, float32(0.5)},
		{arrow.PrimitiveTypes.Float32, math.Inf(-1), float32(math.Inf(-1))},
		{arrow.FixedWidthTypes.Float16, 0.5, float16.New(0.5)},
		{arrow.PrimitiveTypes.Float64, float16.New(0.5), 0.5},
		{arrow.BinaryTypes.String, []byte("x"), "x"},
		{arrow.BinaryTypes.BinaryView, "x", []byte("x")},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, "ab", [2]byte{'a', 'b'}},
		{&arrow.FixedSizeBinaryType{ByteWidth: 0}, "", []byte{}},
		{arrow.FixedWidthTypes.Timestamp_us, at, arrow.Timestamp(at.UnixMicro())},
		{arrow.FixedWidthTypes.Timestamp_ns, at, arrow.Timestamp(at.UnixNano())},
		{arrow.FixedWidthTypes.Timestamp_ms, at.Truncate(time.Millisecond), arrow.Timestamp(at.UnixMilli())},
		{arrow.FixedWidthTypes.Timestamp_s, time.Unix(-5, 0), arrow.Timestamp(-5)},
		{arrow.FixedWidthTypes.Date32, midnight, days},
		{arrow.FixedWidthTypes.Date64, midnight, arrow.Date64(int64(days) * 86_400_000)},
		{arrow.FixedWidthTypes.Date32, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), arrow.Date32(-1)},
		{arrow.FixedWidthTypes.Time32s, time.Hour, arrow.Time32(3600)},
		{arrow.FixedWidthTypes.Time64ns, time.Hour, arrow.Time64(time.Hour)},
		{arrow.FixedWidthTypes.Duration_ms, time.Second, arrow.Duration(1000)},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, "12.5", decimal128.FromI64(1250)},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, 12, decimal128.FromI64(1200)},
		{&arrow.Decimal64Type{Precision: 10, Scale: -2}, 1200, decimal.Decimal64(12)},
		{&arrow.Decimal32Type{Precision: 3, Scale: 1}, "-99.9", decimal.Decimal32(-999)},
	} {
		codec := mustBind(t, c.typ, false)
		got, err := codec.AppendValues(nil, []any{c.value})
		want, err2 := codec.AppendValues(nil, []any{c.canonical})
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s: %v (%T) = %x, %v; %v (%T) = %x, %v", c.typ, c.value, c.value, got, err, c.canonical, c.canonical, want, err2)
		}
	}
}

func mustBind(t *testing.T, dt arrow.DataType, nullable bool) *Codec {
	t.Helper()
	c, err := Bind(arrow.NewSchema([]arrow.Field{{Name: "k", Type: dt}}, nil), []int{0}, nullable)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is not exactly a value of the column is refused, with column, type, value
// and expectation.
func TestValuesRefused(t *testing.T) {
	at := time.Date(2024, 2, 29, 13, 14, 15, 123456789, time.UTC)
	for _, c := range []struct {
		typ   arrow.DataType
		value any
	}{
		{arrow.PrimitiveTypes.Int64, nil},
		{arrow.PrimitiveTypes.Int64, "7"},
		{arrow.PrimitiveTypes.Int64, 7.0},
		{arrow.PrimitiveTypes.Int64, true},
		{arrow.PrimitiveTypes.Int64, uint64(1 << 63)},
		{arrow.PrimitiveTypes.Int64, time.Second},
		{arrow.PrimitiveTypes.Int64, arrow.Timestamp(1)},
		{arrow.PrimitiveTypes.Int64, struct{}{}},
		{arrow.PrimitiveTypes.Int64, []int{1}},
		{arrow.PrimitiveTypes.Int64, (*int)(nil)},
		{arrow.PrimitiveTypes.Int8, 128},
		{arrow.PrimitiveTypes.Int8, -129},
		{arrow.PrimitiveTypes.Int32, int64(math.MaxInt32) + 1},
		{arrow.PrimitiveTypes.Uint8, 256},
		{arrow.PrimitiveTypes.Uint8, -1},
		{arrow.PrimitiveTypes.Uint64, -1},
		{arrow.PrimitiveTypes.Float64, int64(1)<<53 + 1},
		{arrow.PrimitiveTypes.Float64, int64(math.MaxInt64)},
		{arrow.PrimitiveTypes.Float64, uint64(math.MaxUint64)},
		{arrow.PrimitiveTypes.Float64, "1"},
		{arrow.PrimitiveTypes.Float32, 0.1},
		{arrow.PrimitiveTypes.Float32, 1e300},
		{arrow.FixedWidthTypes.Float16, 70000.0},
		{arrow.FixedWidthTypes.Float16, 0.1},
		{arrow.FixedWidthTypes.Boolean, 1},
		{arrow.BinaryTypes.String, 1},
		{arrow.BinaryTypes.Binary, nil},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, "abc"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, [1]byte{}},
		{arrow.FixedWidthTypes.Timestamp_us, at},
		{arrow.FixedWidthTypes.Timestamp_s, at},
		{arrow.FixedWidthTypes.Timestamp_ns, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{arrow.FixedWidthTypes.Timestamp_us, time.Unix(1<<62, 0)},
		{arrow.FixedWidthTypes.Timestamp_us, int64(1)},
		{arrow.FixedWidthTypes.Date32, at},
		{arrow.FixedWidthTypes.Date32, arrow.Date64(0)},
		{arrow.FixedWidthTypes.Date64, arrow.Date32(0)},
		{arrow.FixedWidthTypes.Date32, 5},
		{arrow.FixedWidthTypes.Time32s, time.Millisecond},
		{arrow.FixedWidthTypes.Time32ms, time.Duration(math.MaxInt64) / 1000000 * 1000000},
		{arrow.FixedWidthTypes.Time64us, arrow.Time32(1)},
		{arrow.FixedWidthTypes.Duration_s, time.Millisecond},
		{arrow.FixedWidthTypes.Duration_s, 5},
		{arrow.FixedWidthTypes.MonthInterval, 5},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, "1.234"},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, "100"},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, "1/2"},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, "1e1"},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, ""},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, strings.Repeat("0", 1000)},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, 1.5},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, decimal128.FromI64(10000)},
		{&arrow.Decimal32Type{Precision: 3, Scale: 0}, int64(1) << 40},
	} {
		codec := mustBind(t, c.typ, false)
		got, err := codec.AppendValues([]byte("kept"), []any{c.value})
		ve, ok := errors.AsType[*ValueError](err)
		if !ok || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v (%T): %x, %v; want a *ValueError", c.typ, c.value, c.value, got, err)
			continue
		}
		if ve.Column != "k" || ve.Type != c.typ || ve.Want == "" || string(got) != "kept" {
			t.Errorf("%s: %v: error %+v, key %q", c.typ, c.value, ve, got)
		}
		if text := err.Error(); !strings.Contains(text, `"k"`) || !strings.Contains(text, c.typ.String()) || len(text) > 500 {
			t.Errorf("error text: %s", text)
		}
	}
}

func TestValuesCount(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}}, nil)
	c, err := Bind(sc, []int{0, 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, vals := range [][]any{nil, {1}, {1, "x", 2}} {
		if _, err := c.AppendValues(nil, vals); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d values: %v", len(vals), err)
		}
	}
	for n, vals := range [][]any{nil, {1}, {1, "x"}, {1, "x", 2}} {
		if _, err := c.AppendPrefix(nil, vals); (err == nil) != (n == 1 || n == 2) {
			t.Errorf("prefix of %d values: %v", n, err)
		}
	}
	if _, err := c.AppendValues(nil, []any{1, strings.Repeat("x", MaxBytes)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("long key: %v", err)
	}
}
