//go:build unix

package fight

func (c *child) race() {}
func (c *child) keep() {}
