package metrics

import (
	"context"

	otypes "github.com/traefik/traefik/v3/pkg/observability/types"
)

// RegisterInfluxDB2 registers nothing: this build leaves InfluxDB out.
func RegisterInfluxDB2(context.Context, *otypes.InfluxDB2) Registry { return nil }

// StopInfluxDB2 has nothing to stop.
func StopInfluxDB2() {}
