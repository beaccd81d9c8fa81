package redis

import (
	"errors"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider refuses to start: this build leaves Redis out.
type Provider struct{}

// Init fails.
func (*Provider) Init() error { return errors.New("this build leaves Redis out") }

// Provide is never reached.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }
