package provisioner

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// NewCommand is the command line of the provisioner.
func NewCommand() *cobra.Command {
	var kubeconfig, root string
	command := &cobra.Command{
		Use:          "local-provisioner",
		Short:        "Gives PersistentVolumeClaims directories of this node",
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return Provisioner{Volumes: client.CoreV1().PersistentVolumes(), Root: root}.Run(ctx, client)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	command.Flags().StringVar(&root, "root", "", "folder that holds one directory per volume")
	_ = command.MarkFlagRequired("kubeconfig")
	_ = command.MarkFlagRequired("root")
	return command
}
