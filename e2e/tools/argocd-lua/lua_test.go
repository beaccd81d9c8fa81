package argocdlua

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

type object = map[string]any

// Argo CD ends a script that takes longer.
const limit = time.Second

// run gives what a script returns for an object, as JSON. Without open libraries only those are there that Argo CD
// always opens, but its own os.
func run(script string, obj object, openLibs bool) ([]byte, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: !openLibs})
	defer state.Close()
	if !openLibs {
		for name, open := range map[string]lua.LGFunction{
			lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		} {
			call := lua.P{Fn: state.NewFunction(open), Protect: true}
			if err := state.CallByParam(call, lua.LString(name)); err != nil {
				return nil, fmt.Errorf("open library %s: %w", name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", value(state, obj))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	return luajson.Encode(state.Get(-1))
}

// value is a JSON value in Lua.
func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	case string:
		return lua.LString(of)
	case []any:
		list := state.NewTable()
		for _, item := range of {
			list.Append(value(state, item))
		}
		return list
	case object:
		table := state.NewTable()
		for key, item := range of {
			table.RawSetString(key, value(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// patch is the merge patch by which Argo CD carries an action out: what differs between the object and what the script
// returned. Lua has one empty table, which comes back as a list; Argo CD puts the map back that was there.
func patch(before, after object) object {
	changes := object{}
	for key, old := range before {
		changed, there := after[key]
		oldMap, wasMap := old.(object)
		if list, isList := changed.([]any); isList && wasMap && len(list) == 0 {
			continue
		}
		newMap, isMap := changed.(object)
		switch {
		case !there:
			changes[key] = nil
		case wasMap && isMap:
			if within := patch(oldMap, newMap); len(within) > 0 {
				changes[key] = within
			}
		case !equal(old, changed):
			changes[key] = changed
		}
	}
	for key, added := range after {
		if _, there := before[key]; !there {
			changes[key] = added
		}
	}
	return changes
}

func equal(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && string(left) == string(right)
}
