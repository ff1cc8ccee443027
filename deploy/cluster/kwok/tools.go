//go:build tools

// Package kwok pins KWOK, which plays kubelet for thousands of nodes of the test cluster.
// It is never compiled: it only makes `go mod tidy` keep what it needs in go.sum.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
