package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/keys"
)

var testSchema = arrow.NewSchema([]arrow.Field{
	{Name: "i8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
	{Name: "u32", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Second}, Nullable: true},
	{Name: "dec", Type: &arrow.Decimal128Type{Precision: 5, Scale: 2}, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	{Name: "fsb", Type: &arrow.FixedSizeBinaryType{ByteWidth: 3}, Nullable: true},
}, nil)

func TestBind_RefusesWhatDoesNotFit(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 500, time.UTC)
	for _, tt := range []struct {
		e      *Expr
		reason Reason
		text   string
	}{
		{Compare(OpEq, "nope", 1), UnknownColumn, `column "nope" is not in the schema`},
		{IsNull("nope"), UnknownColumn, `column "nope"`},
		{In("nope"), UnknownColumn, `column "nope"`},
		{Not(IsNull("nope")), UnknownColumn, `column "nope"`},
		{Compare(OpEq, "list", 1), NotComparable, `column "list" of type list<item: int64, nullable> does not take "=="`},
		{In("list"), NotComparable, "does not take"},
		{Prefix("i8", "x"), NotComparable, `does not take "startsWith": expected text or binary`},
		{Compare(OpEq, "i8", "x"), WrongType, `column "i8" of type int8 == "x" (string): wrong type: expected a signed integer of 8 bits`},
		{Compare(OpEq, "i8", 1.0), WrongType, "wrong type"},
		{Compare(OpEq, "s", 1), WrongType, "expected string or []byte"},
		{Compare(OpEq, "b", 1), WrongType, "expected bool"},
		{Compare(OpEq, "ts", 5), WrongType, "time.Time in whole seconds"},
		{Compare(OpEq, "ts", "2024-01-01"), WrongType, "time.Time"},
		{Compare(OpEq, "ts", arrow.Date32(1)), WrongType, "time.Time"},
		{Compare(OpEq, "dec", 1.5), WrongType, "a decimal with at most 5 digits"},
		{Prefix("s", 5), WrongType, "string or []byte"},
		{Prefix("fsb", 5), WrongType, "string or []byte"},
		{Compare(OpLt, "i8", 300), OutOfRange, "300 (int): out of range: expected a signed integer of 8 bits"},
		{Compare(OpLt, "u32", -1), OutOfRange, "unsigned integer of 32 bits"},
		{Between("u32", 1, int64(1)<<32), OutOfRange, "out of range"},
		{In("i8", 1, nil, 128), OutOfRange, "out of range"},
		{Compare(OpGt, "f32", 0.1), OutOfRange, "represents exactly"},
		{Compare(OpGt, "f", int64(1)<<53+1), OutOfRange, "represents exactly"},
		{Compare(OpGe, "ts", at), OutOfRange, "whole seconds"},
		{Compare(OpEq, "dec", "1.005"), OutOfRange, "2 of them after the point"},
		{Compare(OpEq, "dec", 100000), OutOfRange, "5 digits"},
		{Compare(OpEq, "fsb", "abcd"), OutOfRange, "3 bytes"},
	} {
		for _, e := range []*Expr{tt.e, Not(tt.e), And(IsNull("s"), tt.e), Or(And(), tt.e)} {
			_, err := Bind(testSchema, e)
			typed, ok := errors.AsType[*Error](err)
			if !ok || typed.Reason != tt.reason || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v: %v, want %v: %s", e, err, tt.reason, tt.text)
			}
		}
	}
	_, err := Bind(testSchema, And(Compare(OpEq, "nope", 1), Or(Compare(OpEq, "i8", 999), Not(Compare(OpEq, "s", 1)))))
	if n := strings.Count(fmt.Sprint(err), "filter:"); n != 3 {
		t.Errorf("%d violations are reported, want 3: %v", n, err)
	}
}

func TestBind_BoundsSize(t *testing.T) {
	deep, wide := IsNull("s"), IsNull("s")
	for range MaxDepth + 1 {
		deep = Not(deep)
	}
	for range 100 {
		wide = And(wide, wide) // 2^100 parts, if one walks them all
	}
	for _, e := range []*Expr{deep, wide} {
		_, err := Bind(testSchema, e)
		if _, ok := errors.AsType[*SizeError](err); !ok || !errors.Is(err, ErrInvalid) {
			t.Errorf("bound: %v", err)
		}
		if got := e.String(); got != "(too large)" {
			t.Errorf("text: %.100s", got)
		}
	}
	if _, err := Bind(testSchema, deep.args[0]); err != nil {
		t.Errorf("a depth of %d: %v", MaxDepth, err)
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		e    *Expr
		want string
	}{
		{And(), "true"},
		{Or(), "false"},
		{And(Compare(OpEq, "a", 1), Not(Or(Compare(OpNe, "b c", "x"), IsNull("d")))), "(a == 1 and not (`b c` != \"x\" or isNull(d)))"},
		{Not(Compare(OpEq, "a", 1)), "not (a == 1)"},
		{Not(Not(IsNull("a"))), "not not isNull(a)"},
		{Between("a", nil, []byte{1, 0xab}), `a in null .. hex("01ab")`},
		{Between("a", 1, 2), "a in 1 .. 2"},
		{In("a", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), "a in [1, 2, 3, 4, 5, 6, 7, 8, … 10 values]"},
		{Prefix("1a", strings.Repeat("é", 100)), "`1a` startsWith \"" + strings.Repeat("é", 32) + `"…`},
		{Compare(OpEq, "not", []byte(strings.Repeat("a", 100))), "`not` == hex(\"" + strings.Repeat("61", 64) + `…")`},
		{Compare(OpEq, "ti`ck", "\xff"), "`ti``ck` == hex(\"ff\")"},
		{In("f", 1.5, 2.0, float32(0.1), math.NaN(), math.Inf(-1), 1e30), `f in [1.5, 2.0, 0.1, "NaN", "-Inf", 1e+30]`},
		{Compare(OpLe, "t", time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)), `t <= "2024-01-02T03:04:05.000000006Z"`},
		{Compare(OpLe, "t", 90*time.Second), `t <= "1m30s"`},
	} {
		if got := tt.e.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestOrderIsThatOfKeys compares the words of floats with those of package keys.
func TestOrderIsThatOfKeys(t *testing.T) {
	mem := memory.DefaultAllocator
	nan := math.Float64frombits(0xfff8_0000_dead_beef)
	vals := []float64{math.NaN(), nan, math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, math.MaxFloat64, -math.SmallestNonzeroFloat64}
	b64, b32 := array.NewFloat64Builder(mem), array.NewFloat32Builder(mem)
	for _, v := range vals {
		b64.Append(v)
		b32.Append(float32(v))
	}
	cols := []arrow.Array{b64.NewArray(), b32.NewArray()}
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		{Name: "d", Type: arrow.PrimitiveTypes.Float64}, {Name: "f", Type: arrow.PrimitiveTypes.Float32}}, nil), cols, int64(len(vals)))
	for col := range cols {
		c, err := keys.Bind(rec.Schema(), []int{col}, false)
		if err != nil {
			t.Fatal(err)
		}
		for row, v := range vals {
			want := keys.LoadWord(c.AppendRow(nil, rec, row))
			got := float64Word(math.Float64bits(v))
			if col == 1 {
				got = uint64(float32Word(math.Float32bits(float32(v)))) << 32
			}
			if got != want {
				t.Errorf("column %d, %v: %x, want %x", col, v, got, want)
			}
		}
	}
	for _, tt := range []struct {
		e    *Expr
		want int
	}{
		{Compare(OpEq, "d", math.NaN()), 2},
		{Compare(OpEq, "d", 0), 2},
		{Compare(OpEq, "d", math.Copysign(0, -1)), 2},
		{Compare(OpGt, "d", math.Inf(1)), 2},
		{Compare(OpGt, "d", math.NaN()), 0},
		{Compare(OpLt, "d", math.NaN()), 8},
		{Compare(OpLe, "d", math.NaN()), 10},
		{Compare(OpNe, "d", math.NaN()), 8},
		{Compare(OpGe, "f", 0), 8},
		{In("f", math.NaN(), 0, math.Inf(-1)), 6},
	} {
		p, err := Bind(rec.Schema(), tt.e)
		if err != nil {
			t.Fatal(err)
		}
		if got := count(p.NewEvaluator(), rec, 0, len(vals)); got != tt.want {
			t.Errorf("%v: %d rows, want %d", tt.e, got, tt.want)
		}
	}
}

// TestThreeValuedLogic has the cases in which a logic of two values goes wrong.
func TestThreeValuedLogic(t *testing.T) {
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, testSchema, strings.NewReader(`[{"i8": 1, "s": "a"}, {"i8": 2, "s": null}, {"i8": null, "s": "b"}, {"i8": 3, "s": "c"}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	one := Compare(OpEq, "i8", 1)
	for _, tt := range []struct {
		e    *Expr
		want string // rows
	}{
		{one, "0"},
		{Not(one), "1 3"},
		{Not(Not(one)), "0"},
		{Compare(OpNe, "i8", 1), "1 3"},
		{Compare(OpEq, "i8", nil), ""},
		{Not(Compare(OpEq, "i8", nil)), ""},
		{Compare(OpNe, "i8", nil), ""},
		{IsNull("i8"), "2"},
		{Not(IsNull("i8")), "0 1 3"},
		{In("i8"), ""},
		{Not(In("i8")), "0 1 2 3"},
		{In("i8", nil), ""},
		{Not(In("i8", nil)), ""},
		{In("i8", 1, nil), "0"},
		{Not(In("i8", 1, nil)), ""},
		{Not(In("i8", 1, 2)), "3"},
		{Between("i8", 2, 3), "1 3"},
		{Between("i8", 3, 2), ""},
		{Not(Between("i8", 3, 2)), "0 1 3"},
		{Not(Between("i8", 2, 2)), "0 3"},
		{Between("i8", 2, nil), ""},
		{Not(Between("i8", 2, nil)), "0"},
		{Not(Between("i8", nil, 2)), "3"},
		{Not(Prefix("s", "a")), "2 3"},
		{Prefix("s", ""), "0 2 3"},
		{Prefix("s", nil), ""},
		{Not(Prefix("s", nil)), ""},
		{Or(one, Compare(OpEq, "s", "b")), "0 2"},
		{Not(Or(one, Compare(OpEq, "s", "b"))), "3"},
		{Not(And(one, Compare(OpEq, "s", "a"))), "1 2 3"},
		{And(), "0 1 2 3"},
		{Or(), ""},
		{Not(And()), ""},
		{Or(one, Not(one)), "0 1 3"},
	} {
		p, err := Bind(testSchema, tt.e)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range selected(p.NewEvaluator(), rec, 0, 4) {
			got = append(got, fmt.Sprint(row))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: rows %v, want %q", tt.e, got, tt.want)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		e    *Expr
		want string
	}{
		{Compare(OpEq, "i8", 1), "[0:[1]]"},
		{And(Compare(OpGe, "i8", 1), Compare(OpLt, "i8", 5), Compare(OpGt, "i8", 1)), "[0:(1,5)]"},
		{And(Compare(OpGe, "i8", 1), Compare(OpLe, "i8", 1)), "[0:[1]]"},
		{And(Compare(OpGe, "i8", 2), Compare(OpLe, "i8", 1)), "never"},
		{And(In("i8", 3, 1, 3, nil), Or(Compare(OpEq, "s", "a"), IsNull("f"))), "[0:[1 3]]"},
		{Or(Compare(OpEq, "i8", 2), Compare(OpEq, "i8", 1)), "[0:[1 2]]"},
		{Or(In("i8", 3, 1), Compare(OpEq, "i8", 2), Or(In("i8", 1, nil), Or())), "[0:[1 2 3]]"},
		{Or(Compare(OpEq, "i8", 1), Compare(OpEq, "i8", 1)), "[0:[1]]"},
		{Or(Compare(OpEq, "i8", 1), Compare(OpEq, "u32", 1)), "[]"},
		{Or(Compare(OpEq, "i8", 1), Compare(OpGt, "i8", 5)), "[]"},
		{Or(Compare(OpEq, "i8", 1), Compare(OpNe, "i8", 5)), "[]"},
		{Or(Compare(OpEq, "i8", 1), IsNull("i8")), "[]"},
		{Not(And(Compare(OpNe, "i8", 1), Compare(OpNe, "i8", 2))), "[0:[1 2]]"},
		{And(IsNull("s"), Compare(OpGe, "i8", 1)), "[4:[<nil>] 0:[1,<nil>]]"},
		{Not(IsNull("s")), "[]"},
		{Not(Or(Compare(OpLt, "i8", 1), IsNull("s"), Compare(OpNe, "b", true))), "[0:[1,<nil>] 5:[true]]"},
		{And(Prefix("s", "ab"), And(Not(In("i8", 1, 2)))), "[4:[ab,[97 99])]"},
		{And(Compare(OpGe, "s", "b"), Compare(OpLe, "s", "a")), "never"},
		{And(Compare(OpGe, "s", "b"), Compare(OpLt, "s", "b")), "never"},
		{Prefix("s", "\xff\xff"), "[4:[\xff\xff,<nil>]]"},
		{Not(In("i8", 1, nil)), "never"},
		{Compare(OpGt, "i8", 127), "never"},
		{Compare(OpLt, "u32", 0), "never"},
	} {
		p, err := Bind(testSchema, tt.e)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, b := range p.Bounds() {
			if b.Pins != nil {
				parts = append(parts, fmt.Sprintf("%d:%v", b.Column, b.Pins))
				continue
			}
			parts = append(parts, fmt.Sprintf("%d:%s%v,%v%s", b.Column, map[bool]string{true: "(", false: "["}[b.LowOpen], b.Low, b.High, map[bool]string{true: ")", false: "]"}[b.HighOpen]))
		}
		got := "[" + strings.Join(parts, " ") + "]"
		if p.Never() {
			got = "never"
		}
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.e, got, tt.want)
		}
	}
}

// TestValues_OfOtherScalesAndUnits compares columns with values that are written in another
// scale or unit than theirs.
func TestValues_OfOtherScalesAndUnits(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	day := time.Date(2024, 1, 2, 0, 0, 0, 0, time.FixedZone("", 3600))
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "d2", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}}, {Name: "d0", Type: &arrow.Decimal64Type{Precision: 9}}, {Name: "dm1", Type: &arrow.Decimal256Type{Precision: 9, Scale: -1}},
		{Name: "s", Type: &arrow.TimestampType{Unit: arrow.Second}}, {Name: "ms", Type: &arrow.TimestampType{Unit: arrow.Millisecond}},
		{Name: "us", Type: &arrow.TimestampType{Unit: arrow.Microsecond}}, {Name: "ns", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Brussels"}},
		{Name: "date", Type: arrow.FixedWidthTypes.Date32}, {Name: "date64", Type: arrow.FixedWidthTypes.Date64},
		{Name: "t_s", Type: arrow.FixedWidthTypes.Time32s}, {Name: "t_ns", Type: arrow.FixedWidthTypes.Time64ns},
		{Name: "dur_ms", Type: arrow.FixedWidthTypes.Duration_ms}, {Name: "dur_us", Type: arrow.FixedWidthTypes.Duration_us},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, v := range []string{"12.50", "120", "120", "2024-01-02T03:04:05", "2024-01-02T03:04:05", "2024-01-02T03:04:05", at.Format(time.RFC3339), "2024-01-02", "2024-01-02", "00:01:30", "00:01:30"} {
		if i == 2 {
			b.Field(i).(*array.Decimal256Builder).Append(decimal256.FromI64(12))
		} else if err := b.Field(i).AppendValueFromString(v); err != nil {
			t.Fatal(err)
		}
	}
	b.Field(11).(*array.DurationBuilder).Append(90_000)
	b.Field(12).(*array.DurationBuilder).Append(90_000_000)
	rec := b.NewRecordBatch()
	defer rec.Release()
	for _, tt := range []struct {
		column              string
		below, equal, above []any
	}{
		{"d2", []any{12, "12.4", "12.49"}, []any{"12.5", "12.50", "12.500"}, []any{13, "12.6", "12.51"}},
		{"d0", []any{12, "119.0"}, []any{120, "120.0"}, []any{1200, "121"}},
		{"dm1", []any{10, "110"}, []any{120, "120.00"}, []any{1200, 130}},
		{"s", []any{at.Add(-time.Second)}, []any{at, at.In(time.FixedZone("", 7200))}, []any{at.Add(time.Second)}},
		{"ms", []any{at.Add(-time.Millisecond)}, []any{at}, []any{at.Add(time.Millisecond)}},
		{"us", []any{at.Add(-time.Microsecond)}, []any{at}, []any{at.Add(time.Microsecond)}},
		{"ns", []any{at.Add(-1)}, []any{at}, []any{at.Add(1)}},
		{"date", []any{day.AddDate(0, 0, -1)}, []any{day}, []any{day.AddDate(0, 0, 1)}},
		{"date64", []any{day.AddDate(0, 0, -1)}, []any{day}, []any{day.AddDate(0, 0, 1)}},
		{"t_s", []any{89 * time.Second}, []any{90 * time.Second}, []any{91 * time.Second}},
		{"t_ns", []any{90*time.Second - 1}, []any{90 * time.Second}, []any{90*time.Second + 1}},
		{"dur_ms", []any{90*time.Second - time.Millisecond}, []any{90 * time.Second}, []any{90*time.Second + time.Millisecond}},
		{"dur_us", []any{90*time.Second - time.Microsecond}, []any{90 * time.Second}, []any{90*time.Second + time.Microsecond}},
	} {
		for i, values := range [][]any{tt.below, tt.equal, tt.above} {
			for _, v := range values {
				for op, want := range map[Op][3]bool{OpGt: {true, false, false}, OpEq: {false, true, false}, OpLt: {false, false, true}} {
					p, err := Bind(schema, Compare(op, tt.column, v))
					if err != nil {
						t.Errorf("%s %v %v: %v", tt.column, op, v, err)
						continue
					}
					if got := p.NewEvaluator().Matches(rec, 0); got != want[i] {
						t.Errorf("%s %v %v: %v", tt.column, op, v, got)
					}
				}
			}
		}
	}
}

// TestWordSet compares sets of words with maps: close together and far apart, and among
// them the word that free cells hold.
func TestWordSet(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		span := []uint64{1, 64, bitmapSpan - 1, bitmapSpan, 1 << 40, math.MaxUint64}[r.IntN(6)]
		low := r.Uint64N(math.MaxUint64 - span + 1)
		member := map[uint64]bool{low: true, low + span: true}
		for range r.IntN(300) {
			member[low+r.Uint64N(max(span, 1))] = true
		}
		s := newWordSet(slices.Sorted(maps.Keys(member)))
		for w := range member {
			for _, w := range []uint64{w, w + 1, w - 1, r.Uint64()} {
				if s.has(w) != member[w] {
					t.Fatalf("seed %d: %d of %d words from %d to %d: %v", seed, w, len(member), low, low+span, s.has(w))
				}
			}
		}
	}
}

// selected are the matches among the rows from <= row < to of a batch.
func selected(e *Evaluator, rec arrow.RecordBatch, from, to int) (rows []int) {
	var m Mask
	for ; from < to; from += Block {
		for i, w := range e.Select(&m, rec, from, min(Block, to-from)) {
			for ; w != 0; w &= w - 1 {
				rows = append(rows, from+i*64+bits.TrailingZeros64(w))
			}
		}
	}
	return rows
}

// count is the number of matches among the rows from <= row < to of a batch.
func count(e *Evaluator, rec arrow.RecordBatch, from, to int) (n int) {
	var m Mask
	for ; from < to; from += Block {
		for _, w := range e.Select(&m, rec, from, min(Block, to-from)) {
			n += bits.OnesCount64(w)
		}
	}
	return n
}

// What lies under a null of a view column may point anywhere; and a filter keeps its own
// copy of bytes, also of those of a named type.
func TestNullViewsAndNamedBytes(t *testing.T) {
	data := array.NewData(arrow.BinaryTypes.StringView, 2, []*memory.Buffer{
		memory.NewBufferBytes([]byte{0b10}), memory.NewBufferBytes(append(bytes.Repeat([]byte{0x7f}, 16), 1, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
	}, nil, 1, 0)
	defer data.Release()
	col := array.NewStringViewData(data)
	defer col.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.StringView, Nullable: true}}, nil)
	rec := array.NewRecordBatch(schema, []arrow.Array{col}, 2)
	defer rec.Release()
	value := json.RawMessage("a")
	e := Compare(OpEq, "s", value)
	value[0] = 'b'
	p, err := Bind(schema, e)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(p.NewEvaluator(), rec, 0, 2); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
