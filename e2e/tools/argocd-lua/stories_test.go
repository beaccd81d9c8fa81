// Package argocdlua runs the health checks and actions that the chart has for Argo CD, in the interpreter of Argo CD,
// on what the operator's own planners write.
package argocdlua

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const (
	root       = "../../.."
	settings   = root + "/charts/slipway/files/argocd/argocd-cm.yaml"
	core       = root + "/operator/core/src"
	agents     = core + "/agent_deployment/tests/snapshots/*__gitops__agent_deployments.snap"
	engines    = core + "/engine/decide/snapshots/*__engines.snap"
	profiles   = core + "/profile/decide/tests/snapshots/*__gitops__profiles.snap"
	healthKey  = "resource.customizations.health.slipway.dev_"
	actionsKey = "resource.customizations.actions.slipway.dev_"
)

// A story of the operator's tests, with the object at its end.
type story struct {
	Name   string
	Object object
}

// What an argocd-cm has as the actions of a kind.
type actions struct {
	Discovery   string `yaml:"discovery.lua"`
	Definitions []struct {
		Name   string `yaml:"name"`
		Action string `yaml:"action.lua"`
	} `yaml:"definitions"`
}

func config(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &configMap); err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	return configMap.Data
}

// stories reads a snapshot: a head in YAML, and the value in JSON.
func stories(t *testing.T, pattern string) []story {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s names %d files: %v", pattern, len(found), err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	_, body, isWhole := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
	var read []story
	if err := json.Unmarshal([]byte(body), &read); err != nil || !isWhole {
		t.Fatalf("%s: %v", found[0], err)
	}
	return read
}

func copied(t *testing.T, of object) object {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, text)
}

func decoded(t *testing.T, text []byte) object {
	t.Helper()
	var read object
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return read
}

// at follows names into an object; nil where there is nothing.
func at(of any, names ...string) any {
	for _, name := range names {
		members, isObject := of.(object)
		if !isObject {
			return nil
		}
		of = members[name]
	}
	return of
}

// message is that of a condition of this type.
func message(t *testing.T, of object, kind string) string {
	t.Helper()
	list, _ := at(of, "status", "conditions").([]any)
	for _, condition := range list {
		if at(condition, "type") == kind {
			text, _ := at(condition, "message").(string)
			return text
		}
	}
	t.Fatalf("there is no condition %s", kind)
	return ""
}

func bothLibraries(t *testing.T, test func(t *testing.T, openLibs bool)) {
	for name, openLibs := range map[string]bool{"without libraries": false, "with open libraries": true} {
		t.Run(name, func(t *testing.T) { test(t, openLibs) })
	}
}
