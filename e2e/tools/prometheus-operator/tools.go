//go:build tools

// Package tools names what is built in this module.
package tools

import (
	_ "github.com/prometheus-operator/prometheus-operator/cmd/operator"
	_ "github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader"
	_ "github.com/prometheus/alertmanager/cmd/alertmanager"
	_ "github.com/prometheus/prometheus/cmd/prometheus"
)
