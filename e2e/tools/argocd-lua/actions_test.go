package argocdlua

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const (
	canary   = "$canary"
	proposed = "$proposed"
	campaign = "$campaign"
	rejected = "$rejected"
)

// The actions that a story offers, with the annotations that each changes; a story that is left out offers none.
var offered = map[string]map[string]object{
	"a choice waits for approval":              {"approve": {"approve": proposed}, "abort": {"abort": proposed}},
	"another campaign waits for approval":      {"approve": {"approve-reprofiling": campaign}},
	"a choice is approved":                     withCanary(),
	"a canary starts":                          withCanary(),
	"a canary is judged":                       withCanary(),
	"no gateway serves the route":              withCanary(),
	"a canary waits for a node":                withCanary(),
	"the canary was rolled back":               {"retry": {"retry": rejected}},
	"the revert of a rollback is not seen yet": {"retry": {"retry": rejected}},
	"there is no room for a canary":            withCanary(),
	"a rollback is retried":                    withCanary(),
	"a retry is rolled back":                   {"retry": {"retry": rejected + "/2"}},
	// What is retried is no longer aborted.
	"a canary is aborted": {"retry": {"retry": rejected, "abort": nil}},
	"a canary is paused":  paused(object{"pause": nil}),
	// The spec is changed beside the annotations.
	"a canary is paused by the spec": paused(object{}),
	"a canary has no traffic":        withCanary(),
	"a rollout has no pods":          withCanary(),
}

func withCanary() map[string]object {
	return map[string]object{"promote": {"promote": canary}, "abort": {"abort": canary}, "pause": {"pause": canary}}
}

func paused(resumed object) map[string]object {
	return map[string]object{"promote": {"promote": canary}, "abort": {"abort": canary}, "resume": resumed}
}

func ofAgentDeployment(t *testing.T) (string, map[string]string) {
	t.Helper()
	var read actions
	if err := yaml.Unmarshal([]byte(config(t)[actionsKey+"AgentDeployment"]), &read); err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{}
	for _, definition := range read.Definitions {
		scripts[definition.Name] = definition.Action
	}
	return read.Discovery, scripts
}

func TestActions(t *testing.T) {
	discovery, scripts := ofAgentDeployment(t)
	for _, story := range stories(t, agents) {
		t.Run(story.Name, func(t *testing.T) {
			bothLibraries(t, func(t *testing.T, openLibs bool) {
				enabled := discovered(t, discovery, story.Object, openLibs)
				expected := offered[story.Name]
				if !slices.Equal(enabled, sorted(expected)) {
					t.Fatalf("%v are offered, expected %v", enabled, sorted(expected))
				}
				for _, name := range enabled {
					isCarriedOut(t, scripts[name], story.Object, expected[name], openLibs)
				}
			})
		})
	}
}

func sorted(of map[string]object) []string {
	names := []string{}
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func discovered(t *testing.T, script string, of object, openLibs bool) []string {
	t.Helper()
	text, err := run(script, of, openLibs)
	if err != nil {
		t.Fatal(err)
	}
	enabled, all := []string{}, decoded(t, text)
	for name := range all {
		if at(all, name, "disabled") == false {
			enabled = append(enabled, name)
		}
	}
	if len(all) != 6 {
		t.Errorf("%d actions are known", len(all))
	}
	slices.Sort(enabled)
	return enabled
}

// carriedOut is the patch of an action.
func carriedOut(t *testing.T, script string, of object, openLibs bool) object {
	t.Helper()
	text, err := run(script, of, openLibs)
	if err != nil {
		t.Fatal(err)
	}
	return patch(copied(t, of), decoded(t, text))
}

func isCarriedOut(t *testing.T, script string, of, expected object, openLibs bool) {
	t.Helper()
	found := carriedOut(t, script, of, openLibs)
	annotations := object{}
	for name, value := range expected {
		annotations["slipway.dev/"+name] = filledIn(of, value)
	}
	wanted := object{"metadata": object{"annotations": annotations}}
	switch {
	case len(annotations) == 0:
		wanted = object{"spec": object{"rollout": object{"paused": false}}}
	case hasOnly(of, annotations):
		// All of them go, which a merge patch says of their map.
		wanted = object{"metadata": object{"annotations": nil}}
	}
	if !equal(found, wanted) {
		t.Errorf("found %v, expected %v", found, wanted)
	}
}

// hasOnly tells whether an object has no annotations but those that go.
func hasOnly(of, changes object) bool {
	before, _ := at(of, "metadata", "annotations").(object)
	for name := range before {
		if value, changes := changes[name]; !changes || value != nil {
			return false
		}
	}
	for _, value := range changes {
		if value != nil {
			return false
		}
	}
	return true
}

func filledIn(of object, value any) any {
	text, isText := value.(string)
	if !isText {
		return value
	}
	for place, found := range map[string]any{
		canary:   at(of, "status", "rollout", "canary"),
		proposed: at(of, "status", "rollout", "proposed", "planHash"),
		campaign: at(of, "status", "drift", "proposal"),
		rejected: latest(of),
	} {
		hash, _ := found.(string)
		text = strings.ReplaceAll(text, place, hash)
	}
	return text
}

// latest is the plan that was rolled back last.
func latest(of object) any {
	list, _ := at(of, "status", "rollout", "rejected").([]any)
	if len(list) == 0 {
		return nil
	}
	return at(list[len(list)-1], "plan")
}

// Annotations of others stay, also where the last command goes.
func TestResumeLeavesOtherAnnotations(t *testing.T) {
	_, scripts := ofAgentDeployment(t)
	for _, story := range stories(t, agents) {
		if story.Name != "a canary is paused" {
			continue
		}
		of := copied(t, story.Object)
		at(of, "metadata", "annotations").(object)["argocd.argoproj.io/tracking-id"] = "agents"
		bothLibraries(t, func(t *testing.T, openLibs bool) {
			found := carriedOut(t, scripts["resume"], of, openLibs)
			wanted := object{"metadata": object{"annotations": object{"slipway.dev/pause": nil}}}
			if !equal(found, wanted) {
				t.Errorf("found %v, expected %v", found, wanted)
			}
		})
	}
}

// A choice comes first: who approves it has not looked at the campaign yet.
func TestApproveTakesTheChoiceFirst(t *testing.T) {
	_, scripts := ofAgentDeployment(t)
	for _, story := range stories(t, agents) {
		if story.Name != "a choice waits for approval" {
			continue
		}
		of := copied(t, story.Object)
		at(of, "status").(object)["drift"] = object{"proposal": "7c1f9a2b3d-1"}
		bothLibraries(t, func(t *testing.T, openLibs bool) {
			isCarriedOut(t, scripts["approve"], of, object{"approve": proposed}, openLibs)
		})
	}
}
