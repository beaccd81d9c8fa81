//go:build tools

// Package tools names what is built in this module.
package tools

import _ "github.com/argoproj/argo-cd/v3/cmd"
