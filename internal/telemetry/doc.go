// Package telemetry maps figures that are kept anyway to the instruments of
// OpenTelemetry.
//
// A program that keeps a struct of statistics lists what it exports as a
// []Metric of that struct, and calls [Register] with a function that reads it.
// Each collection of the meter's reader then reads the struct once. Nothing is
// counted twice and nothing is added to the paths that do the counting.
//
// Only the API of OpenTelemetry is imported: who records and where to is the
// choice of the program that passes a provider.
package telemetry
