// Command slipway-cluster holds the server components of a one-node Kubernetes
// cluster in one binary, and a provisioner of local volumes; the first argument
// names the component to run.
//
// One binary instead of six links the shared Kubernetes libraries once,
// which saves most of the build time and disk space.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"slipway.dev/e2e/cluster/provisioner"
)

// component is one entry point; run receives os.Args already shifted, so that
// os.Args[0] is the component's own name.
type component struct {
	name string
	run  func() int
}

func components() []component {
	return []component{
		{"etcd", func() int { etcdmain.Main(os.Args); return 0 }},
		{"kube-apiserver", cobraMain(apiserver.NewAPIServerCommand)},
		{"kube-controller-manager", cobraMain(controllermanager.NewControllerManagerCommand)},
		{"kube-scheduler", cobraMain(func() *cobra.Command { return scheduler.NewSchedulerCommand() })},
		{"kubelet", cobraMain(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })},
		{"kube-proxy", cobraMain(kubeproxy.NewProxyCommand)},
		{"local-provisioner", cobraMain(provisioner.NewCommand)},
	}
}

// cobraMain defers building the command until it is the one asked for: the
// constructors register flags and feature gates as a side effect.
func cobraMain(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func main() {
	all := components()
	if len(os.Args) < 2 {
		usage(all)
	}
	for _, c := range all {
		if c.name == os.Args[1] {
			os.Args = append([]string{c.name}, os.Args[2:]...)
			os.Exit(c.run())
		}
	}
	fmt.Fprintf(os.Stderr, "slipway-cluster: unknown component %q\n", os.Args[1])
	usage(all)
}

func usage(all []component) {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	fmt.Fprintf(os.Stderr, "usage: slipway-cluster %s ARGS...\n", strings.Join(names, "|"))
	os.Exit(2)
}
