package objstore

// Prices are what a store charges, in dollars. The classes are those of most
// bills: A is what writes or lists, B is what reads.
type Prices struct {
	ClassA float64 // for 1,000 of PUT, COPY, POST and LIST
	ClassB float64 // for 1,000 of GET, HEAD and all others
	Delete float64 // for 1,000 of DELETE
	Egress float64 // for each GiB that is read; 0 within a region, as a rule
}

// S3Standard returns the list prices of S3 Standard in us-east-1 (US East, N.
// Virginia), read within the region. Source: https://aws.amazon.com/s3/pricing/,
// "Requests & data retrievals" and "Data transfer".
func S3Standard() Prices { return Prices{ClassA: 0.005, ClassB: 0.0004} }

// Charge is what requests of one class cost.
type Charge struct {
	Requests uint64
	Dollars  float64
}

// Cost is a bill by request class. What it costs to keep the objects is no part
// of it.
type Cost struct {
	ClassA  Charge  // PUT, and LIST by the page
	ClassB  Charge  // GET, whole or a range, and HEAD
	Delete  Charge  // DELETE
	Egress  float64 // dollars for the bytes read
	Dollars float64 // the sum
}

// Cost returns what the requests cost at p. Every attempt counts, also a failed
// one: stores charge for most of these, and where one does not it is a little less.
func (v CounterValues) Cost(p Prices) Cost {
	charge := func(requests uint64, price float64) Charge {
		return Charge{Requests: requests, Dollars: float64(requests) * price / 1000}
	}
	c := Cost{
		ClassA: charge(v.Puts()+v.List.Requests, p.ClassA),
		ClassB: charge(v.Get.Requests+v.GetRange.Requests+v.Head.Requests, p.ClassB),
		Delete: charge(v.Delete.Requests, p.Delete),
		Egress: float64(v.BytesRead) * p.Egress / (1 << 30),
	}
	c.Dollars = c.ClassA.Dollars + c.ClassB.Dollars + c.Delete.Dollars + c.Egress
	return c
}
