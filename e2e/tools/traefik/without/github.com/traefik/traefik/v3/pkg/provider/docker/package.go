package docker

import (
	"errors"

	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider refuses to start: this build leaves Docker out.
type Provider struct {
	HTTPClientTimeout ptypes.Duration
}

// Init fails.
func (*Provider) Init() error { return errors.New("this build leaves Docker out") }

// Provide is never reached.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }

// SwarmProvider refuses to start, as Provider does.
type SwarmProvider struct {
	Provider
	RefreshSeconds ptypes.Duration
}
