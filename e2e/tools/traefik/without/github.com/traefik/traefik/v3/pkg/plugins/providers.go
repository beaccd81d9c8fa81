package plugins

import "github.com/traefik/traefik/v3/pkg/provider"

type providerBuilder struct {
	Import, BasePkg string
	interpreter     *interpreter
}

// BuildProvider fails.
func (b Builder) BuildProvider(string, map[string]any) (provider.Provider, error) {
	return nil, errLeftOut
}
