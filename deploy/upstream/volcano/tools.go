//go:build tools

// Package volcano pins the Volcano scheduler, which a benchmark runs beside Gangline.
// It is never compiled: it only makes `go mod tidy` keep what it needs in go.sum.
package volcano

import (
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
)
