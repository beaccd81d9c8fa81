// Command pause is the first process of every pod sandbox: it holds the pod's
// namespaces open, reaps orphans (it is pid 1 of pods that share a process
// namespace) and leaves on SIGINT or SIGTERM.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	orphan := make(chan os.Signal, 1)
	signal.Notify(orphan, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-orphan:
			reap()
		}
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}
