package keys

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// sample is how the tests make values of a type and order them, without any code
// of the package: by Go's own comparisons.
type sample struct {
	typ     arrow.DataType
	value   func(r *rand.Rand) any       // a random value, often an extreme one
	append  func(b array.Builder, v any) // to an array
	compare func(a, b any) int           // in the documented order
	goValue func(v any) any              // for AppendValues; nil: the value itself
}

func pick[T any](r *rand.Rand, vals ...T) T { return vals[r.IntN(len(vals))] }

func number[T cmp.Ordered, B interface{ Append(T) }](t arrow.DataType, random func(r *rand.Rand) T, extremes ...T) sample {
	return sample{
		typ: t,
		value: func(r *rand.Rand) any {
			if r.IntN(3) == 0 {
				return pick(r, extremes...)
			}
			return random(r)
		},
		append:  func(b array.Builder, v any) { any(b).(B).Append(v.(T)) },
		compare: func(a, b any) int { return cmp.Compare(a.(T), b.(T)) },
	}
}

// float is the documented order: -0.0 is 0.0, NaN is one value above +Inf.
func float[T float32 | float64](t arrow.DataType, app func(b array.Builder, v T), random func(r *rand.Rand) T, extremes ...T) sample {
	return sample{
		typ: t,
		value: func(r *rand.Rand) any {
			if r.IntN(3) == 0 {
				return pick(r, append(extremes, 0, T(math.Copysign(0, -1)), T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), -T(math.NaN()))...)
			}
			return random(r)
		},
		append: func(b array.Builder, v any) { app(b, v.(T)) },
		compare: func(a, b any) int {
			x, y := float64(a.(T)), float64(b.(T))
			switch nx, ny := math.IsNaN(x), math.IsNaN(y); {
			case nx && ny:
				return 0
			case nx:
				return 1
			case ny:
				return -1
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		},
	}
}

func randomBytes(r *rand.Rand) []byte {
	if r.IntN(4) == 0 {
		return pick(r, nil, []byte{0}, []byte{0, 0}, []byte{0, 1}, []byte{0, 0xff}, []byte{0xff}, []byte("a\x00"), []byte("a\x00\x01b"), []byte("a"))
	}
	b := make([]byte, r.IntN(14))
	for i := range b {
		b[i] = pick[byte](r, 0, 1, 2, 'a', 0xfe, 0xff)
	}
	return b
}

func variable(t arrow.DataType, app func(b array.Builder, v []byte)) sample {
	return sample{
		typ:     t,
		value:   func(r *rand.Rand) any { return randomBytes(r) },
		append:  func(b array.Builder, v any) { app(b, v.([]byte)) },
		compare: func(a, b any) int { return bytes.Compare(a.([]byte), b.([]byte)) },
	}
}

// wholeDecimal: random unscaled integers within the precision.
func wholeDecimal[T any](t arrow.DecimalType, of func(*big.Int) T, app func(array.Builder, T)) sample {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.GetPrecision())), nil)
	return sample{
		typ: t,
		value: func(r *rand.Rand) any {
			n := big.NewInt(0)
			switch r.IntN(4) {
			case 0:
				n.SetInt64(int64(r.IntN(5) - 2))
			case 1:
				n.Sub(limit, big.NewInt(1))
			default:
				for range 5 {
					n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(r.Uint64()))
				}
				n.Mod(n, limit)
			}
			if r.IntN(2) == 0 {
				n.Neg(n)
			}
			return n
		},
		append:  func(b array.Builder, v any) { app(b, of(v.(*big.Int))) },
		compare: func(a, b any) int { return a.(*big.Int).Cmp(b.(*big.Int)) },
		goValue: func(v any) any { return of(v.(*big.Int)) },
	}
}

func samples() []sample {
	i64 := func(r *rand.Rand) int64 { return r.Int64() - r.Int64() }
	list := []sample{
		{
			typ:     arrow.FixedWidthTypes.Boolean,
			value:   func(r *rand.Rand) any { return r.IntN(2) == 1 },
			append:  func(b array.Builder, v any) { b.(*array.BooleanBuilder).Append(v.(bool)) },
			compare: func(a, b any) int { return map[bool]int{true: 1}[a.(bool)] - map[bool]int{true: 1}[b.(bool)] },
		},
		number[int8, *array.Int8Builder](arrow.PrimitiveTypes.Int8, func(r *rand.Rand) int8 { return int8(r.Uint32()) }, 0, -1, 1, math.MinInt8, math.MaxInt8),
		number[int16, *array.Int16Builder](arrow.PrimitiveTypes.Int16, func(r *rand.Rand) int16 { return int16(r.Uint32()) }, 0, -1, 1, math.MinInt16, math.MaxInt16),
		number[int32, *array.Int32Builder](arrow.PrimitiveTypes.Int32, func(r *rand.Rand) int32 { return int32(r.Uint32()) }, 0, -1, 1, math.MinInt32, math.MaxInt32),
		number[int64, *array.Int64Builder](arrow.PrimitiveTypes.Int64, i64, 0, -1, 1, math.MinInt64, math.MaxInt64),
		number[uint8, *array.Uint8Builder](arrow.PrimitiveTypes.Uint8, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }, 0, 1, math.MaxUint8),
		number[uint16, *array.Uint16Builder](arrow.PrimitiveTypes.Uint16, func(r *rand.Rand) uint16 { return uint16(r.Uint32()) }, 0, 1, math.MaxUint16),
		number[uint32, *array.Uint32Builder](arrow.PrimitiveTypes.Uint32, func(r *rand.Rand) uint32 { return r.Uint32() }, 0, 1, math.MaxUint32),
		number[uint64, *array.Uint64Builder](arrow.PrimitiveTypes.Uint64, func(r *rand.Rand) uint64 { return r.Uint64() }, 0, 1, math.MaxUint64, 1<<63),
		number[arrow.Date32, *array.Date32Builder](arrow.FixedWidthTypes.Date32, func(r *rand.Rand) arrow.Date32 { return arrow.Date32(r.Uint32()) }, 0, -1, 1),
		number[arrow.Date64, *array.Date64Builder](arrow.FixedWidthTypes.Date64, func(r *rand.Rand) arrow.Date64 { return arrow.Date64(i64(r)) }, 0, -1, 1),
		number[arrow.Time32, *array.Time32Builder](arrow.FixedWidthTypes.Time32ms, func(r *rand.Rand) arrow.Time32 { return arrow.Time32(r.Uint32()) }, 0, 1),
		number[arrow.Time64, *array.Time64Builder](arrow.FixedWidthTypes.Time64us, func(r *rand.Rand) arrow.Time64 { return arrow.Time64(i64(r)) }, 0, 1),
		number[arrow.Timestamp, *array.TimestampBuilder](arrow.FixedWidthTypes.Timestamp_us, func(r *rand.Rand) arrow.Timestamp { return arrow.Timestamp(i64(r)) }, 0, -1, 1),
		number[arrow.Duration, *array.DurationBuilder](arrow.FixedWidthTypes.Duration_ms, func(r *rand.Rand) arrow.Duration { return arrow.Duration(i64(r)) }, 0, -1, 1),
		number[arrow.MonthInterval, *array.MonthIntervalBuilder](arrow.FixedWidthTypes.MonthInterval, func(r *rand.Rand) arrow.MonthInterval { return arrow.MonthInterval(r.Uint32()) }, 0, -1, 1),
		float(arrow.PrimitiveTypes.Float64, func(b array.Builder, v float64) { b.(*array.Float64Builder).Append(v) },
			func(r *rand.Rand) float64 { return math.Float64frombits(r.Uint64()) }, math.MaxFloat64, math.SmallestNonzeroFloat64, 1, -1),
		float(arrow.PrimitiveTypes.Float32, func(b array.Builder, v float32) { b.(*array.Float32Builder).Append(v) },
			func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32()) }, math.MaxFloat32, math.SmallestNonzeroFloat32, 1, -1),
		float(arrow.FixedWidthTypes.Float16, func(b array.Builder, v float32) { b.(*array.Float16Builder).Append(halfOf(v)) },
			func(r *rand.Rand) float32 { return float16.FromBits(uint16(r.Uint32())).Float32() }, 1, -1, 65504),
		variable(arrow.BinaryTypes.Binary, func(b array.Builder, v []byte) { b.(*array.BinaryBuilder).Append(v) }),
		variable(arrow.BinaryTypes.LargeBinary, func(b array.Builder, v []byte) { b.(*array.BinaryBuilder).Append(v) }),
		variable(arrow.BinaryTypes.BinaryView, func(b array.Builder, v []byte) { b.(*array.BinaryViewBuilder).Append(v) }),
		variable(arrow.BinaryTypes.String, func(b array.Builder, v []byte) { b.(*array.StringBuilder).Append(string(v)) }),
		variable(arrow.BinaryTypes.LargeString, func(b array.Builder, v []byte) { b.(*array.LargeStringBuilder).Append(string(v)) }),
		variable(arrow.BinaryTypes.StringView, func(b array.Builder, v []byte) { b.(*array.StringViewBuilder).Append(string(v)) }),
		wholeDecimal(&arrow.Decimal32Type{Precision: 9, Scale: 2}, func(n *big.Int) decimal.Decimal32 { return decimal.Decimal32(n.Int64()) },
			func(b array.Builder, v decimal.Decimal32) { b.(*array.Decimal32Builder).Append(v) }),
		wholeDecimal(&arrow.Decimal64Type{Precision: 18, Scale: 3}, func(n *big.Int) decimal.Decimal64 { return decimal.Decimal64(n.Int64()) },
			func(b array.Builder, v decimal.Decimal64) { b.(*array.Decimal64Builder).Append(v) }),
		wholeDecimal(&arrow.Decimal128Type{Precision: 38, Scale: 4}, decimal128.FromBigInt,
			func(b array.Builder, v decimal128.Num) { b.(*array.Decimal128Builder).Append(v) }),
		wholeDecimal(&arrow.Decimal256Type{Precision: 76, Scale: 5}, decimal256.FromBigInt,
			func(b array.Builder, v decimal256.Num) { b.(*array.Decimal256Builder).Append(v) }),
	}
	fixed := variable(&arrow.FixedSizeBinaryType{ByteWidth: 5}, func(b array.Builder, v []byte) { b.(*array.FixedSizeBinaryBuilder).Append(v) })
	fixed.value = func(r *rand.Rand) any { return append(randomBytes(r), 0, 1, 0xff, 'x', 0)[:5:5] }
	list = append(list, fixed)

	dict := variable(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String},
		func(b array.Builder, v []byte) { _ = b.(*array.BinaryDictionaryBuilder).AppendString(string(v)) })
	list = append(list, dict)

	uuid := variable(extensions.NewUUIDType(), func(b array.Builder, v []byte) {
		b.(*array.ExtensionBuilder).Builder.(*array.FixedSizeBinaryBuilder).Append(v)
	})
	uuid.value = func(r *rand.Rand) any { return append(randomBytes(r), make([]byte, 16)...)[:16:16] }
	uuid.goValue = func(v any) any { return [16]byte(v.([]byte)) }
	return append(list, uuid)
}

func halfOf(v float32) float16.Num {
	if v != v {
		return float16.NaN()
	}
	return float16.New(v)
}

// columnOf builds an array of n random values, some null, and slices it, so that
// offsets are exercised; vals are the values of the slice, nil for nulls.
func columnOf(t testing.TB, s sample, r *rand.Rand, n int, nulls bool) (arr arrow.Array, vals []any) {
	b := array.NewBuilder(memory.DefaultAllocator, s.typ)
	if s.typ.ID() == arrow.EXTENSION {
		b.Release()
		b = array.NewExtensionBuilder(memory.DefaultAllocator, s.typ.(arrow.ExtensionType))
	}
	defer b.Release()
	const cut = 3
	for i := range n + 2*cut {
		var v any
		if nulls && r.IntN(4) == 0 {
			b.AppendNull()
		} else {
			v = s.value(r)
			s.append(b, v)
		}
		if i >= cut && i < n+cut {
			vals = append(vals, v)
		}
	}
	whole := b.NewArray()
	defer whole.Release()
	arr = array.NewSlice(whole, cut, int64(n+cut))
	t.Cleanup(arr.Release)
	return arr, vals
}

func recordOf(t testing.TB, arrs ...arrow.Array) arrow.RecordBatch {
	fields := make([]arrow.Field, len(arrs))
	for i, a := range arrs {
		fields[i] = arrow.Field{Name: "c" + strings.Repeat("'", i), Type: a.DataType(), Nullable: true}
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, int64(arrs[0].Len()))
	t.Cleanup(rec.Release)
	return rec
}

// compareNullable orders nils first.
func compareNullable(s sample, a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return s.compare(a, b)
}

func goValueOf(s sample, v any) any {
	if v != nil && s.goValue != nil {
		return s.goValue(v)
	}
	if h, ok := v.(float32); ok && s.typ.ID() == arrow.FLOAT16 {
		return halfOf(h)
	}
	return v
}
