package filtertext_test

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/memwal/filtertext"
)

var orders = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "amount", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}},
	{Name: "status", Type: arrow.BinaryTypes.String},
	{Name: "paid at", Type: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, Nullable: true},
}, nil)

// A literal is a value of the column that it is compared with: here an exact decimal, and
// a time. Names that are no words stand in backticks.
func ExampleParse() {
	f, err := filtertext.Parse("status in ['open', 'held'] and (amount >= 10.50 or `paid at` < '2024-05-06')", orders)
	if err != nil {
		panic(err)
	}
	fmt.Println(f)
	// Output: (status in ["open", "held"] and (amount >= "10.50" or `paid at` < "2024-05-06T00:00:00Z"))
}

// Errors say where, and what to do.
func ExampleParse_errors() {
	for _, text := range []string{
		"status = 'open'",
		"amount >= 10.505",
		"id == 1 and\n  staus == 'open'",
		"`paid at` == null",
		"lower(status) == 'open'",
	} {
		_, err := filtertext.Parse(text, orders)
		fmt.Println(err)
	}
	// Output:
	// filter text, line 1, column 8: = is not known here: write ==
	// filter text, line 1, column 11: filter: column "amount" of type decimal(12, 2) >= "10.505" (string): out of range: expected a decimal with at most 12 digits, 2 of them after the point
	// filter text, line 2, column 3: filter: column "staus" is not in the schema
	// filter text, line 1, column 14: a comparison with null is unknown for every row and so finds nothing, and nor does its negation: write isNull(`paid at`) or not isNull(`paid at`)
	// filter text, line 1, column 1: there is no function "lower": the functions are isNull(column) and hex("00ff")
}
