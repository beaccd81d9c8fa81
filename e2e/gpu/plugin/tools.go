//go:build tools

// Package plugin pins the command of NVIDIA's device plugin that ../build.sh builds.
package plugin

import _ "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
