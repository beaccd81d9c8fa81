// Package plugins has the one discovery that tests use. The others are clients of clouds, and most of what would be
// compiled.
package plugins

import _ "github.com/prometheus/prometheus/discovery/kubernetes"
