// Package grafanadashboards reads the chart's dashboards with the types that Grafana publishes.
package grafanadashboards

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gopkg.in/yaml.v3"
)

const chart = "../../../charts/slipway"

// rendered has the dashboards as the chart's ConfigMaps hold them, by their keys.
func rendered(t *testing.T) map[string]string {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Fatal("HELM names no helm: run make test-dashboards")
	}
	command := exec.Command(helm, "template", "slipway", chart, "--set", "monitoring.dashboards.enabled=true",
		"--show-only", "templates/dashboards.yaml")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for documents := yaml.NewDecoder(bytes.NewReader(output)); ; {
		var configMap struct{ Data map[string]string }
		if err := documents.Decode(&configMap); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, configMap.Data)
	}
}

func TestGrafanaAcceptsEveryDashboardOfTheChart(t *testing.T) {
	all := rendered(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			for _, problem := range problems([]byte(all[name])) {
				t.Error(problem)
			}
		})
	}
}

// Who imports a file by hand gets what the chart installs.
func TestTheChartInstallsEveryDashboardAsItIs(t *testing.T) {
	paths, err := filepath.Glob(chart + "/files/dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("the chart has no dashboards: %v", err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files["slipway-"+filepath.Base(path)] = string(text)
	}
	if installed := rendered(t); !maps.Equal(installed, files) {
		t.Errorf("the chart installs %v, which are not the files %v or differ from them",
			slices.Sorted(maps.Keys(installed)), slices.Sorted(maps.Keys(files)))
	}
}
