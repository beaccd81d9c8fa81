//go:build tools

// Package toolkit pins the commands of NVIDIA's container toolkit that ../build.sh builds.
package toolkit

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime"
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
)
