package grafanadashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

type object = map[string]any

// The kinds of panels and queries that the chart has. All of Grafana's take twice as long to compile.
func init() {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(bargauge.VariantConfig())
	runtime.RegisterPanelcfgVariant(heatmap.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
}

// problems names what Grafana's types do not accept in a dashboard, with the path of each field.
func problems(text []byte) []string {
	found := listing[dashboard.Dashboard]("", text)
	// Queries and settings of fields are read twice.
	slices.Sort(found)
	return slices.Compact(found)
}

// A type of Grafana's that reads JSON.
type readable[T any] interface {
	*T
	UnmarshalJSONStrict([]byte) error
	Validate() error
}

// listing reads what has a list of panels, a dashboard or a row. Grafana's own reader of that list keeps none of them,
// so each is read by itself.
func listing[T any, P readable[T]](at string, text []byte) []string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return named(at, err)
	}
	var panels []json.RawMessage
	if list, has := fields["panels"]; has {
		if err := json.Unmarshal(list, &panels); err != nil {
			return named(at, fmt.Errorf("panels: %w", err))
		}
		fields["panels"] = json.RawMessage("[]")
	}
	found := reading[T, P](at, encoded(fields))
	for index, text := range panels {
		found = append(found, panel(at, index, text)...)
	}
	return found
}

func panel(at string, index int, text []byte) []string {
	var head struct{ Type, Title string }
	at = joined(at, fmt.Sprintf("panels[%d]", index))
	if err := json.Unmarshal(text, &head); err != nil {
		return named(at, err)
	}
	at = fmt.Sprintf("%s (%s)", at, head.Title)
	if head.Type == "row" {
		return listing[dashboard.RowPanel](at, text)
	}
	return leaf(at, head.Type, text)
}

// leaf reads a panel that holds no other.
func leaf(at, kind string, text []byte) []string {
	if _, isKnown := cog.ConfigForPanelcfgVariant(kind); !isKnown {
		// Grafana's reader would accept any options.
		return []string{fmt.Sprintf("%s: type: no kind of panel is registered here as %q", at, kind)}
	}
	found := reading[dashboard.Panel](at, text)
	var raw struct {
		Datasource  struct{ Type string }
		Targets     []json.RawMessage
		FieldConfig json.RawMessage
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return found
	}
	// Grafana's strict reader of a panel does not know the panel's data source when it reads the queries.
	for i, query := range raw.Targets {
		if _, err := cog.StrictUnmarshalDataquery(query, raw.Datasource.Type); err != nil {
			found = append(found, named(at, cog.MakeBuildErrors(fmt.Sprintf("targets[%d]", i), err))...)
		}
	}
	if raw.FieldConfig == nil {
		return found
	}
	// It reads these settings leniently.
	found = append(found, reading[dashboard.FieldConfigSource](at+": fieldConfig", raw.FieldConfig)...)
	var settings dashboard.FieldConfigSource
	if err := json.Unmarshal(raw.FieldConfig, &settings); err != nil {
		return found
	}
	for i, override := range settings.Overrides {
		for j, property := range override.Properties {
			at := fmt.Sprintf("%s: fieldConfig.overrides[%d].properties[%d]", at, i, j)
			found = append(found, leaf(at, kind, withDefault(kind, property))...)
		}
	}
	return found
}

// withDefault is a panel with an override's setting for all fields. The schema leaves a single setting's type open.
func withDefault(kind string, setting dashboard.DynamicConfigValue) []byte {
	value := setting.Value
	for _, name := range slices.Backward(strings.Split(setting.Id, ".")) {
		value = object{name: value}
	}
	return encoded(object{"type": kind, "fieldConfig": object{"defaults": value, "overrides": []any{}}})
}

// reading has a type of Grafana's read a text strictly, then checks its rules and its enumerations.
func reading[T any, P readable[T]](at string, text []byte) []string {
	var strict, plain T
	found := named(at, P(&strict).UnmarshalJSONStrict(text))
	if err := json.Unmarshal(text, &plain); err != nil {
		if len(found) == 0 {
			found = named(at, err)
		}
		return found
	}
	// The strict reader drops options that it accepts.
	found = append(found, named(at, P(&plain).Validate())...)
	for _, problem := range strangers("", reflect.ValueOf(plain)) {
		found = append(found, joined(at, problem))
	}
	return found
}

// Options that a panel leaves out get the plugin's defaults when Grafana loads it.
var hasDefault = regexp.MustCompile(
	`^(options|fieldConfig\.defaults\.custom)\..*: required field is missing from input$`)

// named lists an error's parts, each with its field.
func named(at string, err error) []string {
	var parts cog.BuildErrors
	if err == nil {
		return nil
	}
	// Grafana's readers return an empty list for what they accept.
	if !errors.As(err, &parts) {
		return []string{joined(at, err.Error())}
	}
	var found []string
	for _, part := range parts {
		if !hasDefault.MatchString(part.Error()) {
			found = append(found, joined(at, part.Error()))
		}
	}
	return found
}

func joined(at, text string) string {
	if at == "" {
		return text
	}
	return at + ": " + text
}

// encoded is the JSON of what was read from JSON.
func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
