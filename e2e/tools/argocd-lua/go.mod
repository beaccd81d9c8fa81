module slipway.dev/e2e/tools/argocd-lua

go 1.26

require (
	github.com/yuin/gopher-lua v1.1.1
	gopkg.in/yaml.v3 v3.0.1
	layeh.com/gopher-json v0.0.0-20190114024228-97fed8db8427
)
