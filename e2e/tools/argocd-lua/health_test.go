package argocdlua

import (
	"strings"
	"testing"
)

// What is expected of a story: a health, and the condition that has its message, or the message itself.
type health struct{ status, from string }

var ofAgents = map[string]health{
	"nobody has seen it":                       {"Progressing", "the operator has not seen it yet"},
	"the model is resolved":                    {"Progressing", "Reconciling"},
	"the checkpoint is fetched":                {"Progressing", "Reconciling"},
	"the engine is built":                      {"Progressing", "Reconciling"},
	"the first pods start":                     {"Progressing", "Reconciling"},
	"it serves":                                {"Healthy", "Ready"},
	"an edit is not seen yet":                  {"Progressing", "the operator has not seen generation 2 yet"},
	"it is scaled to nothing":                  {"Healthy", "Ready"},
	"its pods are lost":                        {"Progressing", "Reconciling"},
	"the spec is refused":                      {"Degraded", "Stalled"},
	"a build is tried again":                   {"Progressing", "Reconciling"},
	"no engine can be built":                   {"Degraded", "Stalled"},
	"the first pods fail":                      {"Degraded", "Stalled"},
	"configurations are measured":              {"Progressing", "Reconciling"},
	"no configuration is feasible":             {"Degraded", "Stalled"},
	"the campaign fails":                       {"Degraded", "Stalled"},
	"a tighter objective is infeasible":        {"Degraded", "Stalled"},
	"a choice waits for approval":              {"Suspended", "Suspended"},
	"a choice is approved":                     {"Progressing", "Reconciling"},
	"the approved choice serves":               {"Healthy", "Ready"},
	"another campaign waits for approval":      {"Healthy", "Ready"},
	"a canary starts":                          {"Progressing", "Reconciling"},
	"a canary is judged":                       {"Progressing", "Reconciling"},
	"no gateway serves the route":              {"Progressing", "Reconciling"},
	"a canary waits for a node":                {"Progressing", "Reconciling"},
	"the canary has won":                       {"Healthy", "Ready"},
	"the canary was rolled back":               {"Degraded", "Stalled"},
	"the revert of a rollback is not seen yet": {"Progressing", "the operator has not seen generation 4 yet"},
	"a rollback is reverted":                   {"Healthy", "Ready"},
	"there is no room for a canary":            {"Degraded", "Stalled"},
	"a rollback is retried":                    {"Progressing", "Reconciling"},
	"a retry is rolled back":                   {"Degraded", "Stalled"},
	"a canary is aborted":                      {"Degraded", "Stalled"},
	"a canary is paused":                       {"Suspended", "Suspended"},
	"a command is invalid":                     {"Healthy", "Ready; CommandInvalid"},
	"a canary is paused by the spec":           {"Suspended", "Suspended"},
	"a canary has no traffic":                  {"Suspended", "Suspended"},
	"a rollout has no pods":                    {"Suspended", "Suspended"},
}

var ofEngines = map[string]health{
	"its build starts":         {"Progressing", "Reconciling"},
	"it is built":              {"Progressing", "Reconciling"},
	"its build is tried again": {"Progressing", "Reconciling"},
	"its build failed":         {"Degraded", "Stalled"},
	"it is in the store":       {"Healthy", "Ready"},
}

var ofProfiles = map[string]health{
	"configurations are measured":  {"Progressing", "Reconciling"},
	"a configuration is chosen":    {"Healthy", "Ready"},
	"no configuration is feasible": {"Healthy", "Ready"},
	"nothing could be measured":    {"Degraded", "Stalled"},
}

func TestHealth(t *testing.T) {
	for _, kind := range []struct {
		name, stories string
		expected      map[string]health
	}{
		{"AgentDeployment", agents, ofAgents}, {"Engine", engines, ofEngines}, {"Profile", profiles, ofProfiles},
	} {
		t.Run(kind.name, func(t *testing.T) {
			script, read := config(t)[healthKey+kind.name], stories(t, kind.stories)
			if len(read) != len(kind.expected) {
				t.Errorf("%d stories, and a health is expected of %d", len(read), len(kind.expected))
			}
			for _, story := range read {
				t.Run(story.Name, func(t *testing.T) {
					expected, isExpected := kind.expected[story.Name]
					if !isExpected {
						t.Fatal("no health is expected")
					}
					bothLibraries(t, func(t *testing.T, openLibs bool) { isHealth(t, script, story.Object, expected, openLibs) })
				})
			}
		})
	}
}

// What is deleted, and what was never looked at, is told apart from what the status says.
func TestHealthOfWhatIsDeleted(t *testing.T) {
	for _, pattern := range []string{agents, engines, profiles} {
		for _, story := range stories(t, pattern) {
			deleted := copied(t, story.Object)
			deleted["metadata"].(object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			script := config(t)[healthKey+deleted["kind"].(string)]
			bothLibraries(t, func(t *testing.T, openLibs bool) {
				isHealth(t, script, deleted, health{"Progressing", "it is being deleted"}, openLibs)
			})
		}
	}
}

func isHealth(t *testing.T, script string, of object, expected health, openLibs bool) {
	t.Helper()
	text, err := run(script, of, openLibs)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, part := range strings.Split(expected.from, "; ") {
		if !strings.Contains(part, " ") {
			part = message(t, of, part)
		}
		wanted = append(wanted, part)
	}
	found := decoded(t, text)
	if found["status"] != expected.status || found["message"] != strings.Join(wanted, "; ") {
		t.Errorf("found %s, expected %s: %s", text, expected.status, strings.Join(wanted, "; "))
	}
}
