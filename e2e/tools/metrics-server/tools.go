//go:build tools

// Package tools names what is built in this module.
package tools

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"
