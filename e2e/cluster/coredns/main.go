// Command coredns is CoreDNS with the few plugins that a cluster's DNS needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order is the order in which plugins see a query; upstream's
	// plugin.cfg has the same one.
	dnsserver.Directives = []string{"errors", "health", "ready", "cache", "loop", "kubernetes"}
	coremain.Run()
}
