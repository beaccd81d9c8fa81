package grafanadashboards

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
)

const grafana = "github.com/grafana/grafana-foundation-sdk/go"

// strangers finds values that are not among those of their enumeration, and queries that no type describes. Grafana's
// readers accept any.
func strangers(at string, value reflect.Value) []string {
	var found []string
	of := value.Kind()
	switch {
	case of == reflect.Pointer || of == reflect.Interface:
		if !value.IsNil() {
			found = strangers(at, value.Elem())
		}
	case value.Type() == reflect.TypeFor[variants.UnknownDataquery]():
		found = append(found, at+": no kind of query is registered here for its data source")
	case of == reflect.Struct:
		for field, member := range value.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found = append(found, strangers(strings.TrimPrefix(at+"."+name, "."), member)...)
		}
	case of == reflect.Slice:
		for i := range value.Len() {
			found = append(found, strangers(fmt.Sprintf("%s[%d]", at, i), value.Index(i))...)
		}
	case of == reflect.Map:
		for key, member := range value.Seq2() {
			found = append(found, strangers(fmt.Sprintf("%s[%v]", at, key), member)...)
		}
	// What is absent is read as zero.
	case !value.IsZero():
		written := fmt.Sprintf("%#v", value.Interface())
		all := constants(value.Type())
		if len(all) > 0 && !slices.Contains(all, written) {
			found = append(found, fmt.Sprintf("%s: %s is not one of %s", at, written, strings.Join(all, ", ")))
		}
	}
	return found
}

// constants has the values of an enumeration, as Go writes them.
func constants(of reflect.Type) []string {
	folder, isGrafanas := strings.CutPrefix(of.PkgPath(), grafana+"/")
	if !isGrafanas {
		return nil
	}
	return enumerations(folder)[of.Name()]
}

var (
	alreadyRead = map[string]map[string][]string{}
	sources     = sync.OnceValue(func() string {
		folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", grafana).Output()
		if err != nil {
			panic(fmt.Errorf("find the sources of %s: %w", grafana, err))
		}
		return strings.TrimSpace(string(folder))
	})
)

// enumerations reads those of a package from its source, because a program cannot ask a type for its constants.
func enumerations(folder string) map[string][]string {
	if all, isRead := alreadyRead[folder]; isRead {
		return all
	}
	path := filepath.Join(sources(), folder, "types_gen.go")
	source, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		panic(err)
	}
	all := map[string][]string{}
	ast.Inspect(source, func(node ast.Node) bool {
		constant, isConstant := node.(*ast.ValueSpec)
		if !isConstant {
			return true
		}
		// Constants without a type belong to enumerations that are open to other values.
		if of, isTyped := constant.Type.(*ast.Ident); isTyped && len(constant.Values) == 1 {
			all[of.Name] = append(all[of.Name], types.ExprString(constant.Values[0]))
		}
		return true
	})
	alreadyRead[folder] = all
	return all
}
