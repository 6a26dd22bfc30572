//go:build race

package fight

const raceEnabled = true
