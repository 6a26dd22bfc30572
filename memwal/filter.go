package memwal

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/internal/filter"
)

// Filter says which rows are wanted. The zero Filter wants all. It knows no schema:
// the call that it is given to checks it, and what does not fit is an error that
// matches ErrInvalid, a *FilterError for each column or value, or a *FilterSizeError.
//
// As in SQL, a condition is true, false or unknown, and a row matches if it is true.
// Comparisons with null are unknown, and so are their negations: In with a nil among
// its values finds the others, and Not of that finds nothing. In without values is
// false. Only IsNull finds nulls.
//
// Columns of all types with a total order can be compared: bool, integers, floats,
// decimals, dates, times, timestamps, durations, month intervals, utf8 and binary in
// all forms, and dictionaries of and extensions over these. IsNull takes every type.
// Values are Go values as Snapshot.Lookup takes them: any Go integer for an integer
// column that can hold it, a float for a float, and so on, see package index. Text may
// have any length; nil is null. The order is that of indexes: -0.0 equals
// 0.0, all NaN are equal to each other and greater than everything, text goes by its bytes.
//
// A Filter is immutable and may be shared.
type Filter struct{ expr *filter.Expr }

// Eq is true where the column equals the value.
func Eq(column string, value any) Filter { return Filter{filter.Compare(filter.OpEq, column, value)} }

// Ne is true where the column has another value. It does not find nulls.
func Ne(column string, value any) Filter { return Filter{filter.Compare(filter.OpNe, column, value)} }

// Lt is true where the column is less than the value.
func Lt(column string, value any) Filter { return Filter{filter.Compare(filter.OpLt, column, value)} }

// Le is true where the column is less than the value or equal to it.
func Le(column string, value any) Filter { return Filter{filter.Compare(filter.OpLe, column, value)} }

// Gt is true where the column is greater than the value.
func Gt(column string, value any) Filter { return Filter{filter.Compare(filter.OpGt, column, value)} }

// Ge is true where the column is greater than the value or equal to it.
func Ge(column string, value any) Filter { return Filter{filter.Compare(filter.OpGe, column, value)} }

// In is true where the column equals one of the values.
func In(column string, values ...any) Filter { return Filter{filter.In(column, values...)} }

// Between is true where the column is low, high, or between them.
func Between(column string, low, high any) Filter {
	return Filter{filter.Between(column, low, high)}
}

// Prefix is true where the text or binary column begins with the string or []byte.
func Prefix(column string, prefix any) Filter { return Filter{filter.Prefix(column, prefix)} }

// IsNull is true where the column is null. Not(IsNull(column)) is the opposite.
func IsNull(column string) Filter { return Filter{filter.IsNull(column)} }

// And is true where all filters are; without any, everywhere.
func And(filters ...Filter) Filter { return Filter{filter.And(exprs(filters)...)} }

// Or is true where one of the filters is; without any, nowhere.
func Or(filters ...Filter) Filter { return Filter{filter.Or(exprs(filters)...)} }

// Not is true where the filter is false. It does not find rows for which the filter
// is unknown.
func Not(f Filter) Filter { return Filter{filter.Not(f.orAll())} }

// IsZero tells that no filter was given.
func (f Filter) IsZero() bool { return f.expr == nil }

// Check tells what of the filter does not fit a schema, as the calls that take filters
// do: an error that matches ErrInvalid, with a *FilterError for each column or value.
func (f Filter) Check(schema *arrow.Schema) error {
	if f.IsZero() {
		return nil
	}
	if _, err := filter.Bind(schema, f.expr); err != nil {
		return &invalidError{err}
	}
	return nil
}

// String is the filter as text, in the syntax of package filtertext, with long lists and
// values cut.
func (f Filter) String() string { return f.orAll().String() }

func (f Filter) orAll() *filter.Expr {
	if f.expr == nil {
		return filter.And()
	}
	return f.expr
}

func exprs(filters []Filter) []*filter.Expr {
	out := make([]*filter.Expr, len(filters))
	for i, f := range filters {
		out[i] = f.orAll()
	}
	return out
}

// Typed details of filters that do not fit.
type (
	// FilterError is one part of a filter that does not fit the schema: it has the
	// Column, its Type, the Value, what was wanted instead, and the Reason. It
	// matches ErrInvalid.
	FilterError = filter.Error
	// FilterOp is the operator of a FilterError; it prints as it stands in the text of
	// a filter.
	FilterOp = filter.Op
	// FilterSizeError is a filter that is nested more than 1,000 deep or has more than
	// 65,536 parts. It matches ErrInvalid.
	FilterSizeError = filter.SizeError
	// FilterReason says in what way: one of the constants below.
	FilterReason = filter.Reason
)

const (
	// FilterUnknownColumn: the schema has no such column.
	FilterUnknownColumn = filter.UnknownColumn
	// FilterNotComparable: the column's type has no total order, or the operator
	// does not apply to it.
	FilterNotComparable = filter.NotComparable
	// FilterWrongType: the value is not of the column's type.
	FilterWrongType = filter.WrongType
	// FilterOutOfRange: the column cannot hold the value: it is too large, or finer
	// than the column's unit, scale or precision.
	FilterOutOfRange = filter.OutOfRange
)

// bindFilter binds a filter to what readers see. nil stands for no filter.
func (r *resident) bindFilter(op string, f Filter) (*filter.Program, error) {
	if f.IsZero() {
		return nil, nil
	}
	// The storage schema has the user's columns in the user's order.
	p, err := filter.Bind(r.user, f.expr)
	if err != nil {
		return nil, invalid(op, err)
	}
	if p.Always() {
		return nil, nil
	}
	return p, nil
}
