//go:build tools

// Package training pins the Kubeflow training operator, which the benchmark of Kubeflow jobs runs beside Gangline.
// It is never compiled: it only makes `go mod tidy` keep what it needs in go.sum.
package training

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
