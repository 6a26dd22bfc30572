package keys

import (
	"fmt"
	"reflect"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// normalize reduces a Go value to bool, int64, uint64, float64, string, []byte or
// one of the types that name a unit or scale, which are left alone: an
// arrow.Timestamp is not an integer.
func normalize(v any) any {
	switch v := v.(type) {
	case int64, uint64, string, []byte, bool, float64:
		return v
	case int:
		return int64(v)
	case time.Time, time.Duration, arrow.Timestamp, arrow.Date32, arrow.Date64, arrow.Time32, arrow.Time64,
		arrow.Duration, arrow.MonthInterval, float16.Num, decimal.Decimal32, decimal.Decimal64, decimal128.Num, decimal256.Num:
		return v
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool:
		return rv.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return rv.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return rv.Uint()
	case reflect.Float32, reflect.Float64:
		return rv.Float()
	case reflect.String:
		return rv.String()
	case reflect.Slice:
		if rv.Type().Elem().Kind() == reflect.Uint8 {
			return rv.Bytes()
		}
	case reflect.Array:
		if rv.Type().Elem().Kind() == reflect.Uint8 {
			raw := make([]byte, rv.Len())
			reflect.Copy(reflect.ValueOf(raw), rv)
			return raw
		}
	}
	return v
}

// temporalWordOf converts a normalized value to the word of a date, time,
// timestamp, duration or month interval column.
func temporalWordOf(t arrow.DataType, v any) (uint64, string) {
	switch t := t.(type) {
	case *arrow.TimestampType:
		return timestampWordOf(t.Unit, v)
	case *arrow.Date32Type, *arrow.Date64Type:
		return dateWordOf(t.ID(), v)
	case *arrow.Time32Type:
		raw, isRaw := v.(arrow.Time32)
		n, ok := durationIn(t.Unit, v)
		if isRaw {
			n, ok = int64(raw), true
		}
		ok = ok && int64(int32(n)) == n
		return flip32(int32(n)), unless(ok, "a time.Duration in whole "+unitName(t.Unit)+" or arrow.Time32")
	case *arrow.Time64Type:
		raw, isRaw := v.(arrow.Time64)
		n, ok := durationIn(t.Unit, v)
		if isRaw {
			n, ok = int64(raw), true
		}
		return flip64(n), unless(ok, "a time.Duration in whole "+unitName(t.Unit)+" or arrow.Time64")
	case *arrow.DurationType:
		raw, isRaw := v.(arrow.Duration)
		n, ok := durationIn(t.Unit, v)
		if isRaw {
			n, ok = int64(raw), true
		}
		return flip64(n), unless(ok, "a time.Duration in whole "+unitName(t.Unit)+" or arrow.Duration")
	case *arrow.MonthIntervalType:
		m, ok := v.(arrow.MonthInterval)
		return flip32(m), unless(ok, "arrow.MonthInterval")
	}
	panic(fmt.Sprintf("keys: no conversion for a bound column of type %s", t))
}

func timestampWordOf(unit arrow.TimeUnit, v any) (uint64, string) {
	if raw, ok := v.(arrow.Timestamp); ok {
		return flip64(raw), ""
	}
	want := "a time.Time in whole " + unitName(unit) + " within range, or arrow.Timestamp"
	at, ok := v.(time.Time)
	if !ok {
		return 0, want
	}
	var n int64
	var back time.Time
	switch unit {
	case arrow.Second:
		n = at.Unix()
		back = time.Unix(n, 0)
	case arrow.Millisecond:
		n = at.UnixMilli()
		back = time.UnixMilli(n)
	case arrow.Microsecond:
		n = at.UnixMicro()
		back = time.UnixMicro(n)
	default:
		n = at.UnixNano()
		back = time.Unix(0, n)
	}
	return flip64(n), unless(back.Equal(at), want)
}

func dateWordOf(id arrow.Type, v any) (uint64, string) {
	const want = "a time.Time at midnight, or the column's arrow date type"
	switch d := v.(type) {
	case arrow.Date32:
		return flip32(d), unless(id == arrow.DATE32, want)
	case arrow.Date64:
		return flip64(d), unless(id == arrow.DATE64, want)
	case time.Time:
		if h, m, s := d.Clock(); h != 0 || m != 0 || s != 0 || d.Nanosecond() != 0 {
			return 0, want
		}
		// The calendar date as written, whatever the location.
		days := time.Date(d.Year(), d.Month(), d.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
		if id == arrow.DATE32 {
			return flip32(int32(days)), unless(int64(int32(days)) == days, want)
		}
		return flip64(days * 86_400_000), unless(days*86_400_000/86_400_000 == days, want)
	}
	return 0, want
}

// durationIn is a time.Duration in whole units.
func durationIn(unit arrow.TimeUnit, v any) (int64, bool) {
	d, ok := v.(time.Duration)
	if !ok {
		return 0, false
	}
	step := unit.Multiplier()
	return int64(d / step), d%step == 0
}

func unitName(u arrow.TimeUnit) string {
	switch u {
	case arrow.Second:
		return "seconds"
	case arrow.Millisecond:
		return "milliseconds"
	case arrow.Microsecond:
		return "microseconds"
	}
	return "nanoseconds"
}
