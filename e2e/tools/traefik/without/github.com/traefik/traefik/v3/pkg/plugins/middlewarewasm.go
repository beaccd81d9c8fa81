package plugins

func newWasmMiddlewareBuilder(string, string, string, Settings) (middlewareBuilder, error) {
	return nil, errLeftOut
}
