package filtertext

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"

	. "github.com/memwal/memwal-go/memwal"
)

// testSchema has a column of each type that can be compared, and one that cannot.
var testSchema = func() *arrow.Schema {
	var fields []arrow.Field
	for _, f := range []struct {
		name string
		t    arrow.DataType
	}{
		{"flag", arrow.FixedWidthTypes.Boolean},
		{"i8", arrow.PrimitiveTypes.Int8}, {"i16", arrow.PrimitiveTypes.Int16}, {"i32", arrow.PrimitiveTypes.Int32}, {"i64", arrow.PrimitiveTypes.Int64},
		{"u8", arrow.PrimitiveTypes.Uint8}, {"u16", arrow.PrimitiveTypes.Uint16}, {"u32", arrow.PrimitiveTypes.Uint32}, {"u64", arrow.PrimitiveTypes.Uint64},
		{"f16", arrow.FixedWidthTypes.Float16}, {"f32", arrow.PrimitiveTypes.Float32}, {"f64", arrow.PrimitiveTypes.Float64},
		{"d32", &arrow.Decimal32Type{Precision: 7, Scale: 2}}, {"d64", &arrow.Decimal64Type{Precision: 15, Scale: 2}},
		{"d128", &arrow.Decimal128Type{Precision: 38, Scale: 10}}, {"d256", &arrow.Decimal256Type{Precision: 60, Scale: -1}},
		{"s", arrow.BinaryTypes.String}, {"ls", arrow.BinaryTypes.LargeString}, {"sv", arrow.BinaryTypes.StringView},
		{"b", arrow.BinaryTypes.Binary}, {"lb", arrow.BinaryTypes.LargeBinary}, {"bv", arrow.BinaryTypes.BinaryView},
		{"fsb", &arrow.FixedSizeBinaryType{ByteWidth: 2}}, {"id", extensions.NewUUIDType()},
		{"ts", &arrow.TimestampType{Unit: arrow.Second}}, {"ts_ms", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}},
		{"ts_us", &arrow.TimestampType{Unit: arrow.Microsecond}}, {"ts_ns", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Brussels"}},
		{"date", arrow.FixedWidthTypes.Date32}, {"date64", arrow.FixedWidthTypes.Date64},
		{"t_s", arrow.FixedWidthTypes.Time32s}, {"t_ms", arrow.FixedWidthTypes.Time32ms}, {"t_us", arrow.FixedWidthTypes.Time64us}, {"t_ns", arrow.FixedWidthTypes.Time64ns},
		{"dur_s", arrow.FixedWidthTypes.Duration_s}, {"dur_ns", arrow.FixedWidthTypes.Duration_ns},
		{"months", arrow.FixedWidthTypes.MonthInterval},
		{"dict", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
		{"list", arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{"a b.c", arrow.PrimitiveTypes.Int64}, {"tick`s", arrow.PrimitiveTypes.Int64}, {"null", arrow.PrimitiveTypes.Int64}, {"not", arrow.PrimitiveTypes.Int64},
		{"größe", arrow.PrimitiveTypes.Int64}, {"", arrow.PrimitiveTypes.Int64},
	} {
		fields = append(fields, arrow.Field{Name: f.name, Type: f.t, Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}()

func date(y, m, d, h, min, s, ns int) time.Time {
	return time.Date(y, time.Month(m), d, h, min, s, ns, time.UTC)
}

// texts are filters with what the constructors give; the zero Filter: looks fine, is wrong.
func texts() map[string]Filter {
	brussels := time.FixedZone("", 2*3600)
	return map[string]Filter{
		"i64 == 5":  Eq("i64", int64(5)),
		"i64 != -5": Ne("i64", int64(-5)),
		"i64 < 5":   Lt("i64", int64(5)),
		"i64 <= 5":  Le("i64", int64(5)),
		"i64 > 5":   Gt("i64", int64(5)),
		"i64 >= 5":  Ge("i64", int64(5)),
		// Either side.
		"5 == i64": Eq("i64", int64(5)),
		"5 < i64":  Gt("i64", int64(5)),
		"5 <= i64": Ge("i64", int64(5)),
		"5 > i64":  Lt("i64", int64(5)),
		"5 >= i64": Le("i64", int64(5)),
		// Lists and ranges.
		"i64 in [3, 1, 2,]":        In("i64", int64(3), int64(1), int64(2)),
		"i64 in []":                In("i64"),
		"i64 not in [1]":           Not(In("i64", int64(1))),
		"i64 in 1..5":              Between("i64", int64(1), int64(5)),
		"i64 not in -1 .. 5":       Not(Between("i64", int64(-1), int64(5))),
		`s in "a" .. "b"`:          Between("s", "a", "b"),
		"f64 in 0.5 .. 2":          Between("f64", 0.5, int64(2)),
		"1 <= i64 < 5":             And(Ge("i64", int64(1)), Lt("i64", int64(5))),
		`s startsWith "ab"`:        Prefix("s", "ab"),
		`s not startsWith "ab"`:    Not(Prefix("s", "ab")),
		`fsb startsWith hex("ff")`: Prefix("fsb", []byte{0xff}),
		// Logic.
		"flag":                     Eq("flag", true),
		"not flag":                 Not(Eq("flag", true)),
		"flag == false":            Eq("flag", false),
		"isNull(i8)":               IsNull("i8"),
		"not isNull(list)":         Not(IsNull("list")),
		"true":                     And(),
		"false":                    Or(),
		"!(i8 == 1)":               Not(Eq("i8", int64(1))),
		"not not flag":             Not(Not(Eq("flag", true))),
		"flag or i8 == 1 and true": Or(Eq("flag", true), And(Eq("i8", int64(1)), And())),
		"(flag || false) && true":  And(Or(Eq("flag", true), Or()), And()),
		"flag and flag and flag":   And(Eq("flag", true), Eq("flag", true), Eq("flag", true)),
		"flag and (flag and flag)": And(Eq("flag", true), And(Eq("flag", true), Eq("flag", true))),
		"flag // a comment\n and /* another */ flag": And(Eq("flag", true), Eq("flag", true)),
		// Names.
		"`i64` == 1":        Eq("i64", int64(1)),
		"`a b.c` == 1":      Eq("a b.c", int64(1)),
		"`tick``s` == 1":    Eq("tick`s", int64(1)),
		"`null` == 1":       Eq("null", int64(1)),
		"`not` in [1]":      In("not", int64(1)),
		"größe == 1":        Eq("größe", int64(1)),
		"isNull(``)":        IsNull(""),
		"1 == `a b.c`":      Eq("a b.c", int64(1)),
		`b == "b"`:          Eq("b", "b"),
		"`s` startsWith ``": {},
		// Integers.
		"u64 == 18446744073709551615":               Eq("u64", uint64(math.MaxUint64)),
		"u64 == 0xffff_ffff_ffff_ffff":              Eq("u64", uint64(math.MaxUint64)),
		"i64 == -9223372036854775808":               Eq("i64", int64(math.MinInt64)),
		"i8 in [-128, 127, 0b11, 0o17, -0x10, 007]": In("i8", int64(-128), int64(127), int64(3), int64(15), int64(-16), int64(7)),
		"i32 == 1_000":                              Eq("i32", int64(1000)),
		// Floats: the nearest of the type.
		"f64 == 0.1":                 Eq("f64", 0.1),
		"f32 == 0.1":                 Eq("f32", float32(0.1)),
		"f16 == 0.1":                 Eq("f16", float16.New(0.1)),
		"f64 == 1e3":                 Eq("f64", 1000.0),
		"f64 == -.5":                 Eq("f64", -0.5),
		"f64 == 3":                   Eq("f64", int64(3)),
		"f64 > 36893488147419103232": Gt("f64", 0x1p65),
		`f32 < "+Inf"`:               Lt("f32", math.Inf(1)),
		`f32 >= "-Inf"`:              Ge("f32", math.Inf(-1)),
		// Decimals, exactly.
		"d128 == 1234567890123456789012345678.0123456789": Eq("d128", "1234567890123456789012345678.0123456789"),
		"d128 == -0.1":                           Eq("d128", "-0.1"),
		`d64 == "12.50"`:                         Eq("d64", "12.50"),
		"d32 == 12":                              Eq("d32", int64(12)),
		"d256 == 123456789012345678901234567890": Eq("d256", "123456789012345678901234567890"),
		// Text and binary.
		`s == "a\n\"\\é\u00e9"`: Eq("s", "a\n\"\\éé"),
		`s == 'it''`:            {},
		`s == 'a"b'`:            Eq("s", `a"b`),
		`dict in ["x", "y"]`:    In("dict", "x", "y"),
		`b == hex("00FF")`:      Eq("b", []byte{0, 0xff}),
		`bv == b"\x00\xff"`:     Eq("bv", []byte{0, 0xff}),
		`lb == "é"`:             Eq("lb", "é"),
		`fsb == "ab"`:           Eq("fsb", "ab"),
		`id == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"`: Eq("id", []byte{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}),
		// Times.
		`ts == "2024-05-06T07:08:09Z"`:                   Eq("ts", date(2024, 5, 6, 7, 8, 9, 0)),
		`ts == "2024-05-06T07:08:09"`:                    Eq("ts", date(2024, 5, 6, 7, 8, 9, 0)),
		`ts == "2024-05-06 07:08:09"`:                    Eq("ts", date(2024, 5, 6, 7, 8, 9, 0)),
		`ts == "2024-05-06 07:08"`:                       Eq("ts", date(2024, 5, 6, 7, 8, 0, 0)),
		`ts_ms > "2024-05-06"`:                           Gt("ts_ms", date(2024, 5, 6, 0, 0, 0, 0)),
		`ts_us == "2024-05-06 07:08:09.000001"`:          Eq("ts_us", date(2024, 5, 6, 7, 8, 9, 1000)),
		`ts_ns == "2024-05-06T07:08:09.123456789+02:00"`: Eq("ts_ns", time.Date(2024, 5, 6, 7, 8, 9, 123456789, brussels)),
		`date == "2024-05-06"`:                           Eq("date", date(2024, 5, 6, 0, 0, 0, 0)),
		`date64 in "2024-05-06" .. "2024-06-01"`:         Between("date64", date(2024, 5, 6, 0, 0, 0, 0), date(2024, 6, 1, 0, 0, 0, 0)),
		`t_s == "07:08"`:                                 Eq("t_s", 7*time.Hour+8*time.Minute),
		`t_ms == "07:08:09.25"`:                          Eq("t_ms", 7*time.Hour+8*time.Minute+9250*time.Millisecond),
		`t_ns == "7h8m1ns"`:                              Eq("t_ns", 7*time.Hour+8*time.Minute+1),
		`dur_s == "-1h30m"`:                              Eq("dur_s", -90*time.Minute),
		"months in [12, -1]":                             In("months", arrow.MonthInterval(12), arrow.MonthInterval(-1)),
	}
}

// TestParse compares what a text gives with what the constructors give.
func TestParse(t *testing.T) {
	for text, want := range texts() {
		got, err := Parse(text, testSchema)
		switch {
		case want.IsZero() != (err != nil):
			t.Errorf("%s: %v, %v", text, got, err)
		case err == nil && !sameFilter(got, want):
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	// NaN does not equal itself.
	if f, err := Parse(`f64 == "NaN"`, testSchema); err != nil || f.String() != `f64 == "NaN"` {
		t.Errorf("NaN: %v, %v", f, err)
	}
}

// checkRoundTrip parses a text, and what the filter says of itself.
func checkRoundTrip(t *testing.T, text string) {
	t.Helper()
	f, err := Parse(text, testSchema)
	if err != nil {
		if !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %v", text, err)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Fatalf("%q: an error without a place: %v", text, err)
		}
		return
	}
	if err := f.Check(testSchema); err != nil {
		t.Fatalf("%q does not fit: %v", text, err)
	}
	again := f.String()
	if strings.Contains(again, "…") {
		return // cut
	}
	g, err := Parse(again, testSchema)
	if err != nil || !sameFilter(f, g) {
		t.Fatalf("%q is written as %q, which is read as %v, %v", text, again, g, err)
	}
}

// TestString_ParsesBack joins conditions at random.
func TestString_ParsesBack(t *testing.T) {
	leaves := slices.Sorted(maps.Keys(texts()))
	var join func(r *rand.Rand, depth int) string
	join = func(r *rand.Rand, depth int) string {
		switch {
		case depth == 0 || r.IntN(3) == 0:
			return "(" + leaves[r.IntN(len(leaves))] + ")"
		case r.IntN(3) == 0:
			return "not (" + join(r, depth-1) + ")"
		}
		return join(r, depth-1) + []string{" and ", " or "}[r.IntN(2)] + join(r, depth-1)
	}
	for _, text := range leaves {
		checkRoundTrip(t, text)
	}
	for seed := range uint64(500) {
		checkRoundTrip(t, join(rand.New(rand.NewPCG(seed, 1)), 4))
	}
}

// FuzzParse: what parses fits the schema and is read back as it is written; what does not
// has an error with a place; nothing panics.
func FuzzParse(f *testing.F) {
	for text := range texts() {
		f.Add(text)
	}
	for _, tt := range refused() {
		f.Add(tt.text)
	}
	for _, text := range []string{
		"/*", "//", "'", "\"", "`", "b'", `"\u{}"`, `"\u{110000}"`, `"\400"`, "0x", "1..", "1...2", "..", "[[[", "not", "not in", "`````", "i64 not", "i64 in [", "i64 in 1 .. 2 .. 3",
		"1 < 2 < i64 < 3", "#x", "flag;;", "\x00", "\ufeffflag", "i64 == 1e999999999", "d256 == 0x1p5",
	} {
		f.Add(text)
	}
	f.Fuzz(checkRoundTrip)
}

// sameFilter compares operators, columns and values with their Go types. Times with equal
// offsets are equal.
func sameFilter(a, b Filter) bool {
	return a.String() == b.String() && len(a.String()) > 0 && typesOf(a) == typesOf(b)
}

// typesOf lists the values of a filter with their types.
func typesOf(f Filter) string {
	var out strings.Builder
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem())
		case reflect.Interface:
			fmt.Fprintf(&out, "%v ", v.Elem().Type())
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(f))
	return out.String()
}

type refusal struct {
	text   string
	place  string // line:column
	reason FilterReason
	says   string
}

// refused are texts that are wrong, with the place, and a part of what is said of them.
func refused() []refusal {
	return []refusal{
		// Names and values that do not fit.
		{"nope == 1", "1:1", FilterUnknownColumn, `column "nope" is not in the schema`},
		{"flag and\n  nope", "2:3", FilterUnknownColumn, "nope"},
		{"1 < nope", "1:5", FilterUnknownColumn, "nope"},
		{"isNull(nope)", "1:8", FilterUnknownColumn, "nope"},
		{"nope in [1]", "1:1", FilterUnknownColumn, "nope"},
		{"`ñope` in []", "1:1", FilterUnknownColumn, "ñope"},
		{"list == 1", "1:1", FilterNotComparable, "list"},
		{`i8 startsWith "x"`, "1:1", FilterNotComparable, "expected text or binary"},
		{"i8 == 128", "1:7", FilterOutOfRange, "a signed integer of 8 bits"},
		{"i8 == -129", "1:7", FilterOutOfRange, "a signed integer of 8 bits"},
		{"u8 in [1, 2,\n 256]", "2:2", FilterOutOfRange, "an unsigned integer of 8 bits"},
		{"u16 == -1", "1:8", FilterOutOfRange, "an unsigned integer of 16 bits"},
		{"u32 in 0 .. 4294967296", "1:13", FilterOutOfRange, "an unsigned integer of 32 bits"},
		{"i64 == 9223372036854775808", "1:8", FilterOutOfRange, "a signed integer of 64 bits"},
		{"u64 == 18446744073709551616", "1:8", FilterWrongType, "an integer of at most 64 bits"},
		{"i8 == 1.0", "1:7", FilterWrongType, "a signed integer"},
		{"i8 == \"1\"", "1:7", FilterWrongType, "a signed integer"},
		{"s == 1", "1:6", FilterWrongType, "string or []byte"},
		{"s == true", "1:6", FilterWrongType, "string or []byte"},
		{"flag == 1", "1:9", FilterWrongType, "bool"},
		{"s startsWith 1", "1:14", FilterWrongType, "string or []byte"},
		{"f64 == 9007199254740993", "1:8", FilterOutOfRange, "exactly"},
		{"f32 == 1e39", "1:8", FilterWrongType, "in the range"},
		{"f16 == 1e5", "1:8", FilterWrongType, "in the range"},
		{`f64 == "one"`, "1:8", FilterWrongType, `"NaN"`},
		{"d32 == 0.001", "1:8", FilterOutOfRange, "2 of them after the point"},
		{"d32 == 100000", "1:8", FilterOutOfRange, "7 digits"},
		{"d64 == 1e3", "1:8", FilterOutOfRange, "a decimal with"},
		{`fsb == "abc"`, "1:8", FilterOutOfRange, "2 bytes"},
		{`id == "6ba7"`, "1:7", FilterWrongType, "a UUID such as"},
		{`ts == "yesterday"`, "1:7", FilterWrongType, "a time such as"},
		{`ts == "2024-02-30"`, "1:7", FilterWrongType, "a time such as"},
		{`ts == "2024-05-06T07:08:09.5Z"`, "1:7", FilterOutOfRange, "whole seconds"},
		{"ts == 1714979289", "1:7", FilterWrongType, "time.Time"},
		{`ts_ns == "2024-05-06 07:08:09"`, "1:10", FilterWrongType, "a time with an offset"},
		{`ts_ns == "2300-05-06T07:08:09Z"`, "1:10", FilterOutOfRange, "within range"},
		{`date == "2024-05-06T01:00:00Z"`, "1:9", FilterOutOfRange, "at midnight"},
		{`t_s == "25:00"`, "1:8", FilterWrongType, "a time of day"},
		{`t_s == "07:08:09.5"`, "1:8", FilterOutOfRange, "whole seconds"},
		{`dur_s == "1 hour"`, "1:10", FilterWrongType, "a duration such as"},
		{"months == 2147483648", "1:11", FilterWrongType, "months"},
		{"i64", "1:1", FilterWrongType, "only bool columns stand for themselves"},
		// Nulls.
		{"i64 == null", "1:8", 0, "write isNull(i64) or not isNull(i64)"},
		{"i64 != nil", "1:8", 0, "unknown for every row"},
		{"null == i64", "1:1", 0, "isNull(i64)"},
		{"i64 not in [1, null]", "1:16", 0, "isNull(i64)"},
		// Functions and operators that there are not.
		{"len(s) > 3", "1:1", 0, `no function "len"`},
		{"any(list, {# > 1})", "1:1", 0, `no function "any"`},
		{"i64 + 1 == 2", "1:5", 0, "+ is not supported"},
		{"i64 - 1 == 2", "1:5", 0, "no arithmetic"},
		{"i64 ** 2 == 2", "1:5", 0, "** is not supported"},
		{"s contains 'x'", "1:3", 0, "contains is not supported"},
		{"s matches 'x'", "1:3", 0, "matches is not supported"},
		{"i64 = 1", "1:5", 0, "write =="},
		{"flag & flag", "1:6", 0, "write and"},
		{"flag ? true : false", "1:6", 0, "? is not known"},
		{"flag ?? true", "1:6", 0, "?? is not known"},
		{"let x = 1; x == i64", "1:1", 0, "let is not supported"},
		{"if flag { true } else { false }", "1:1", 0, "if is not supported"},
		{"{a: 1}", "1:1", 0, `"{" is not known`},
		{"s.x == 1", "1:2", 0, "fields of structs"},
		{"list[0] == 1", "1:5", 0, "a part of a value is no column"},
		{"flag; flag", "1:5", 0, "; is not known"},
		{"flag | flag", "1:6", 0, "write and, or"},
		{"::len(s)", "1:1", 0, ":: is not known"},
		{"#", "1:1", 0, "# is not known"},
		// What is no condition.
		{"", "1:1", 0, "conditions are written like"},
		{" \n ", "2:1", 0, "conditions are written like"},
		{"5", "1:1", 0, "the value 5 is no condition"},
		{"-5", "1:1", 0, "is no condition"},
		{`"s"`, "1:1", 0, `the text "s" is no condition`},
		{"[1]", "1:1", 0, "a list is no condition"},
		{"null", "1:1", 0, "null is no condition"},
		{`hex("00")`, "1:1", 0, "is no condition"},
		{"isNull(5)", "1:8", 0, "is no column"},
		{"isNull(i8, i64)", "1:1", 0, "isNull takes one column"},
		{"isNull()", "1:1", 0, "isNull takes one column"},
		{"i64 == i8", "1:8", 0, "not with another column"},
		{"1 == 1", "1:1", 0, "the value 1 is no column"},
		{"i64 == - -1", "1:8", 0, "is no value"},
		{"i64 == (i64 == 1)", "1:13", 0, "is no value"},
		{"i64 == [1]", "1:8", 0, "is no value"},
		{"i64 == isNull(i64)", "1:8", 0, "is no value"},
		{"i64 in 5", "1:8", 0, "write i64 in [1, 2]"},
		{"1 .. 5", "1:3", 0, "a range stands to the right of in"},
		{"not i64 == 5", "1:1", 0, "put the condition in parentheses"},
		{"not s startsWith 'x'", "1:1", 0, "put the condition in parentheses"},
		{`b == hex("0")`, "1:10", 0, "an even number"},
		{`b == hex(1)`, "1:6", 0, "hex takes text"},
		// What the parser refuses.
		{"i64 ==", "1:6", 0, "conditions are written like"},
		{"(flag", "1:5", 0, "conditions are written like"},
		{"flag)", "1:5", 0, "conditions are written like"},
		{"i64 in (1, 2)", "1:10", 0, "conditions are written like"},
		{"flag AND flag", "1:6", 0, "lower case"},
		{"i64 is null", "1:5", 0, "isNull(n)"},
		{`s == "x`, "1:8", 0, "literal not terminated"},
		{`s == "\q"`, "1:8", 0, "escape"},
		{"i64 == 12x", "1:10", 0, "bad number"},
		{"flag @ flag", "1:6", 0, "unrecognized character"},
		{"s == \"a\rb\"", "1:6", 0, `write \r`},
		{"s == \"\xff\"", "1:1", 0, "not UTF-8"},
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, tt := range refused() {
		_, err := Parse(tt.text, testSchema)
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if place := fmt.Sprintf("%d:%d", e.Line, e.Column); place != tt.place || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: at %s: %v; want %s: %s", tt.text, place, err, tt.place, tt.says)
		}
		if f, ok := errors.AsType[*FilterError](err); ok != (tt.reason != 0) || ok && f.Reason != tt.reason {
			t.Errorf("%q: %#v, want the reason %v", tt.text, f, tt.reason)
		}
	}
}

func TestParse_BoundsSize(t *testing.T) {
	in := func(n int) string { return "i64 in [" + strings.Repeat("-1,", n) + "]" }
	for text, says := range map[string]string{
		"flag" + strings.Repeat(" ", MaxText-3):                                    "has 524289 bytes",
		strings.Repeat("(", MaxDepth+1) + "flag" + strings.Repeat(")", MaxDepth+1): "nested more than 100 deep",
		strings.Repeat("(", MaxText):                                               "nested more than 100 deep",
		strings.Repeat("[", MaxText):                                               "nested more than 100 deep",
		strings.Repeat("not ", MaxDepth+1) + "flag":                                "nested more than 100 deep",
		strings.Repeat("-", MaxText):                                               "nested more than 100 deep",
		strings.Repeat("not (not ", 51) + "flag" + strings.Repeat(")", 51):         "nested more than 100 deep",
		in(MaxList + 1):                          "a list of 10001 values",
		"flag" + strings.Repeat("||flag", 1<<16): "exceeds maximum allowed nodes",
		"d256 == 1" + strings.Repeat("0", 1<<16): "a decimal with at most",
		"f64 == 1" + strings.Repeat("0", 1<<16):  "in the range",
		"i64 == 1" + strings.Repeat("0", 1<<16):  "a shorter number",
	} {
		_, err := Parse(text, testSchema)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.30s…: %.300v, want %s", text, err, says)
		}
	}
	for _, text := range []string{
		"flag" + strings.Repeat(" ", MaxText-4),
		strings.Repeat("(", MaxDepth) + "flag" + strings.Repeat(")", MaxDepth),
		strings.Repeat("not ", MaxDepth) + "flag",
		in(MaxList),
		"flag" + strings.Repeat(" or not flag and (flag)", 10_000),
	} {
		if _, err := Parse(text, testSchema); err != nil {
			t.Errorf("%.30s…: %.300v", text, err)
		}
	}
}
