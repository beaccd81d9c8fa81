package plugins
