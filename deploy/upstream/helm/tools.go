//go:build tools

// Package helm pins the Helm that the tests of the chart use.
// It is never compiled: it only makes `go mod tidy` keep what it needs in go.sum.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
