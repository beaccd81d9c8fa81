package grafanadashboards

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

type (
	path = []any
	// absent is the value of a field that is to be removed.
	absent struct{}
)

var (
	rates     = path{"panels", 0}
	settings  = path{"panels", 0, "fieldConfig", "defaults"}
	overrides = path{"panels", 0, "fieldConfig", "overrides", 0, "properties"}
	query     = path{"panels", 0, "targets", 0}
	inARow    = path{"panels", 1, "panels", 0}
	variable  = path{"templating", "list", 0}
)

// Each fault is the only one of a dashboard that is sound otherwise. What is said of it names its field.
func TestEveryFaultIsFound(t *testing.T) {
	for _, fault := range []struct {
		name  string
		at    path
		value any
		words []string
	}{
		{"an unknown field", path{"graphTooltips"}, 1, []string{"unexpected field", "graphTooltips"}},
		{"a field in another case", path{"Refresh"}, "1m", []string{"unexpected field", "Refresh"}},
		{"a wrong type", path{"refresh"}, true, []string{"refresh:", "bool"}},
		{"a value outside of an enumeration of numbers", path{"graphTooltip"}, 3,
			[]string{"graphTooltip:", "0, 1, 2"}},
		{"a required field that is missing", path{"annotations"}, absent{}, []string{"annotations:", "missing"}},
		{"panels that are no list", path{"panels"}, object{}, []string{"panels:"}},

		{"an unknown type of a variable", at(variable, "type"), "querry",
			[]string{"templating.list[0].type:", "querry"}},
		{"an unknown field of a variable", at(variable, "sorted"), 1, []string{"unexpected field", "sorted"}},
		{"a variable's choice without a value", at(variable, "current"), object{"text": "a"},
			[]string{"current.value:"}},

		{"an unknown field of a panel", at(rates, "titel"), "Rates",
			[]string{"(Rates)", "unexpected field", "titel"}},
		{"a wrong type in a panel", at(rates, "id"), "one", []string{"(Rates)", "id:", "string"}},
		{"an unknown kind of panel", at(rates, "type"), "graph", []string{"(Rates)", "type:", "graph"}},
		{"a panel wider than the grid", at(rates, "gridPos", "w"), 25, []string{"(Rates)", "gridPos.w:", "24"}},

		{"an unknown option of a time series", at(rates, "options", "legends"), object{},
			[]string{"(Rates)", "options", "unexpected field", "legends"}},
		{"an unknown option of its legend", at(rates, "options", "legend", "show"), true,
			[]string{"(Rates)", "options.legend", "unexpected field", "show"}},
		{"an option outside of its enumeration", at(rates, "options", "legend", "placement"), "left",
			[]string{"(Rates)", "options.legend.placement:", `"left"`, `"bottom", "right"`}},
		{"an option of a wrong type", at(rates, "options", "legend", "showLegend"), "yes",
			[]string{"(Rates)", "options.legend.showLegend:", "string"}},

		{"an unknown setting of fields", at(settings, "units"), "s",
			[]string{"(Rates)", "defaults", "unexpected field", "units"}},
		{"a wrong type of a setting", at(settings, "unit"), 1, []string{"(Rates)", "unit", "number"}},
		{"an unknown mode of thresholds", at(settings, "thresholds", "mode"), "relative",
			[]string{"(Rates)", "thresholds.mode:", `"absolute", "percentage"`}},
		{"thresholds without a mode", at(settings, "thresholds", "mode"), absent{},
			[]string{"thresholds.mode:", "missing"}},
		{"an unknown setting of a time series", at(settings, "custom", "lineWidht"), 1,
			[]string{"(Rates)", "custom", "unexpected field", "lineWidht"}},
		{"an unknown style of a time series", at(settings, "custom", "drawStyle"), "lines",
			[]string{"(Rates)", "custom.drawStyle:", `"lines"`}},

		{"an override of an unknown setting", at(overrides, 0, "id"), "units",
			[]string{"overrides[0].properties[0]", "unexpected field", "units"}},
		{"an override of a wrong type", at(overrides, 0, "value"), 1,
			[]string{"overrides[0].properties[0]", "unit", "number"}},
		{"an override of an unknown setting of a time series", at(overrides, 1, "id"), "custom.lineWidht",
			[]string{"overrides[0].properties[1]", "unexpected field", "lineWidht"}},

		{"an unknown field of a query", at(query, "legend"), "a",
			[]string{"(Rates)", "targets[0]", "unexpected field", "legend"}},
		{"an unknown format of a query", at(query, "format"), "tabel",
			[]string{"(Rates)", "targets[0].format:", "tabel"}},

		{"an unknown option in a row", at(inARow, "options", "graph"), "none",
			[]string{"(Processes)", "unexpected field", "graph"}},
		{"an unknown mode in a row", at(inARow, "options", "colorMode"), "text",
			[]string{"(Processes)", "options.colorMode:"}},
		{"a query of an unknown data source", at(inARow, "targets", 0, "datasource", "type"), "prom",
			[]string{"(Processes)", "targets[0]:", "data source"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			found := problems(changed(t, fault.at, fault.value))
			if len(found) == 0 {
				t.Fatal("nothing is found")
			}
			for _, word := range fault.words {
				for _, problem := range found {
					if !strings.Contains(problem, word) {
						t.Errorf("%q does not say %q", problem, word)
					}
				}
			}
		})
	}
}

// What a panel leaves out gets the defaults of its kind.
func TestWhatIsSoundIsAccepted(t *testing.T) {
	for _, sound := range []struct {
		name  string
		at    path
		value any
	}{
		{"as it is", path{"refresh"}, "1m"},
		{"null for a field that may be left out", path{"id"}, nil},
		{"no options", at(rates, "options"), absent{}},
		{"empty options", at(rates, "options"), object{}},
		{"empty settings of a time series", at(settings, "custom"), object{}},
		{"an enumeration that is open to other values", at(rates, "options", "timezone"), []any{"Europe/Berlin"}},
	} {
		t.Run(sound.name, func(t *testing.T) {
			for _, problem := range problems(changed(t, sound.at, sound.value)) {
				t.Error(problem)
			}
		})
	}
}

func TestTextThatIsNoDashboard(t *testing.T) {
	for _, text := range []string{"", "[]", "{", "null"} {
		if len(problems([]byte(text))) == 0 {
			t.Errorf("%q is accepted", text)
		}
	}
}

// at is a path below another.
func at(above path, below ...any) path {
	return append(append(path{}, above...), below...)
}

// changed is the sound dashboard with another value at a path.
func changed(t *testing.T, at path, value any) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/sound.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	holder := whole
	for _, step := range at[:len(at)-1] {
		switch step := step.(type) {
		case string:
			holder = holder.(object)[step]
		case int:
			holder = holder.([]any)[step]
		}
	}
	name := at[len(at)-1].(string)
	if value == (absent{}) {
		delete(holder.(object), name)
	} else {
		holder.(object)[name] = value
	}
	return encoded(whole)
}
