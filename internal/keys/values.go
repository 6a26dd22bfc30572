package keys

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// AppendValues appends the key made of Go values, one a column. A value is taken
// only if it is exactly a value of the column's type; anything else is a
// *ValueError, so that a lookup can never ask for a neighbour of what was meant.
//
//	bool                 bool
//	integers             any Go integer in range (named types too)
//	floats               float32, float64 and integers that the type represents exactly; NaN
//	text, binary         string, []byte
//	fixed-size binary    []byte, string or a byte array, of the exact size
//	timestamp            time.Time without a finer part than the unit; arrow.Timestamp in the column's unit
//	date                 time.Time at midnight of its own location; arrow.Date32, arrow.Date64
//	time of day          time.Duration since midnight; arrow.Time32, arrow.Time64 in the column's unit
//	duration             time.Duration; arrow.Duration in the column's unit
//	month interval       arrow.MonthInterval
//	decimals             the Num types of arrow/decimal* (unscaled); integers and decimal text such as "12.50"
//
// nil is null, in codecs that allow it.
func (c *Codec) AppendValues(dst []byte, vals []any) ([]byte, error) {
	if len(vals) != len(c.cols) {
		return dst, &ValueError{Want: fmt.Sprintf("%d, one each for %s; got %d", len(c.cols), c.names(), len(vals))}
	}
	return c.AppendPrefix(dst, vals)
}

// AppendPrefix is AppendValues for the first columns of a key: at least one
// value, at most one a column.
func (c *Codec) AppendPrefix(dst []byte, vals []any) ([]byte, error) {
	if len(vals) == 0 || len(vals) > len(c.cols) {
		return dst, &ValueError{Want: fmt.Sprintf("1 to %d, for %s; got %d", len(c.cols), c.names(), len(vals))}
	}
	start := len(dst)
	for i, v := range vals {
		col := &c.cols[i]
		if v == nil {
			if !c.nullable {
				return dst[:start], col.valueError(v, "a value, since it is a key column")
			}
			dst = append(dst, markNull)
			continue
		}
		if c.nullable {
			dst = append(dst, markValue)
		}
		var err error
		if dst, err = col.appendValue(dst, v); err != nil {
			return dst[:start], err
		}
	}
	if n := len(dst) - start; n > MaxBytes {
		return dst[:start], &ValueError{Want: fmt.Sprintf("a key of at most %d bytes, got %d", MaxBytes, n)}
	}
	return dst, nil
}

func (c *Codec) names() string {
	names := make([]string, len(c.cols))
	for i := range c.cols {
		names[i] = fmt.Sprintf("%q", c.cols[i].name)
	}
	return strings.Join(names, ", ")
}

func (c *column) valueError(v any, want string) error {
	return &ValueError{Column: c.name, Type: c.declared, Value: v, Want: want}
}

func (c *column) appendValue(dst []byte, v any) ([]byte, error) {
	v = normalize(v)
	switch c.form {
	case formBytes, formFixed:
		raw, ok := asBytes(v)
		switch {
		case !ok && c.form == formBytes:
			return dst, c.valueError(v, "string or []byte")
		case !ok || c.form == formFixed && len(raw) != c.width:
			return dst, c.valueError(v, fmt.Sprintf("%d bytes", c.width))
		case c.form == formFixed:
			return append(dst, raw...), nil
		}
		return appendEscaped(dst, raw), nil
	case formWide:
		return c.appendWideValue(dst, v)
	}
	w, want := c.wordOf(v)
	if want != "" {
		return dst, c.valueError(v, want)
	}
	return appendWord(dst, w, c.width), nil
}

func asBytes(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		return bytesOf(v), true
	}
	return nil, false
}

// wordOf converts a normalized value to the column's word. want is empty on
// success, else what was expected.
func (c *column) wordOf(v any) (w uint64, want string) {
	switch t := c.base.(type) {
	case *arrow.BooleanType:
		b, ok := v.(bool)
		return boolWord(b), unless(ok, "bool")
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		return floatWordOf(t.ID(), v)
	case *arrow.Decimal32Type:
		n, ok := unscaled(v, t.Precision, t.Scale)
		return flip32(int32(n.Int64())), unless(ok, wantDecimal(t))
	case *arrow.Decimal64Type:
		n, ok := unscaled(v, t.Precision, t.Scale)
		return flip64(n.Int64()), unless(ok, wantDecimal(t))
	}
	if bits, unsigned := integerBits(c.base.ID()); bits > 0 {
		return integerWordOf(v, bits, unsigned)
	}
	return temporalWordOf(c.base, v)
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func integerBits(id arrow.Type) (bits int, unsigned bool) {
	switch id {
	case arrow.INT8:
		return 8, false
	case arrow.INT16:
		return 16, false
	case arrow.INT32:
		return 32, false
	case arrow.INT64:
		return 64, false
	case arrow.UINT8:
		return 8, true
	case arrow.UINT16:
		return 16, true
	case arrow.UINT32:
		return 32, true
	case arrow.UINT64:
		return 64, true
	}
	return 0, false
}

func integerWordOf(v any, bits int, unsigned bool) (uint64, string) {
	if unsigned {
		var u uint64
		ok := false
		switch n := v.(type) {
		case int64:
			u, ok = uint64(n), n >= 0
		case uint64:
			u, ok = n, true
		}
		ok = ok && u>>(bits-1)>>1 == 0
		if !ok {
			return 0, fmt.Sprintf("an unsigned integer of %d bits", bits)
		}
		return u, ""
	}
	var s int64
	ok := false
	switch n := v.(type) {
	case int64:
		s, ok = n, true
	case uint64:
		s, ok = int64(n), n>>63 == 0
	}
	ok = ok && s<<(64-bits)>>(64-bits) == s
	// Flipping the sign bit at the column's width, not at 64 bits.
	if !ok {
		return 0, fmt.Sprintf("a signed integer of %d bits", bits)
	}
	return (uint64(s) ^ 1<<(bits-1)) << (64 - bits) >> (64 - bits), ""
}

func floatWordOf(id arrow.Type, v any) (uint64, string) {
	const want = "a number that the type represents exactly, or NaN"
	if h, ok := v.(float16.Num); ok {
		v = float64(h.Float32())
	}
	var f float64
	switch n := v.(type) {
	case float64:
		f = n
	case int64:
		if f = float64(n); f >= 1<<63 || int64(f) != n {
			return 0, want
		}
	case uint64:
		if f = float64(n); f >= 1<<64 || uint64(f) != n {
			return 0, want
		}
	default:
		return 0, want
	}
	switch id {
	case arrow.FLOAT64:
		return float64Word(f), ""
	case arrow.FLOAT32:
		return float32Word(float32(f)), unless(f != f || float64(float32(f)) == f, want)
	}
	h := float16.New(float32(f))
	if f != f {
		h = float16.NaN()
	}
	return float16Word(h.Uint16()), unless(f != f || float64(h.Float32()) == f, want)
}

func (c *column) appendWideValue(dst []byte, v any) ([]byte, error) {
	t := c.base.(arrow.DecimalType)
	n, ok := unscaled(v, t.GetPrecision(), t.GetScale())
	if !ok {
		return dst, c.valueError(v, wantDecimal(t))
	}
	if c.width == 16 {
		return appendWide(dst, wide128(decimal128.FromBigInt(n)), 2), nil
	}
	return appendWide(dst, wide256(decimal256.FromBigInt(n)), 4), nil
}

func wantDecimal(t arrow.DecimalType) string {
	return fmt.Sprintf("a decimal with at most %d digits, %d of them after the point", t.GetPrecision(), t.GetScale())
}

// unscaled is v × 10^scale as an integer, if that is exact and within precision.
// The Num types are unscaled already.
func unscaled(v any, precision, scale int32) (*big.Int, bool) {
	n := new(big.Int)
	switch d := v.(type) {
	case decimal.Decimal32:
		n.SetInt64(int64(d))
	case decimal.Decimal64:
		n.SetInt64(int64(d))
	case decimal128.Num:
		n = d.BigInt()
	case decimal256.Num:
		n = d.BigInt()
	default:
		r := new(big.Rat)
		switch d := v.(type) {
		case int64:
			r.SetInt64(d)
		case uint64:
			r.SetUint64(d)
		case string:
			// Bounded and plain: Rat would also take fractions and huge exponents.
			if len(d) > 100 || strings.Trim(d, "+-.0123456789") != "" {
				return n, false
			}
			if _, ok := r.SetString(d); !ok {
				return n, false
			}
		default:
			return n, false
		}
		shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
		if scale >= 0 {
			r.Mul(r, new(big.Rat).SetInt(shift))
		} else {
			r.Quo(r, new(big.Rat).SetInt(shift))
		}
		if !r.IsInt() {
			return n, false
		}
		n = r.Num()
	}
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return n, n.CmpAbs(limit) < 0
}
