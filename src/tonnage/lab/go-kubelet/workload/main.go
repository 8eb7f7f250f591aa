// workload is what a practice pod runs: it prints its environment and mounts as a line of JSON, waits, and ends.
//
//	workload [-seconds N] [-status N]
package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// mount is a line of /proc/self/mountinfo with what lies at its place.
type mount struct {
	Place string `json:"place"`
	Root  string `json:"root"`
	Mode  string `json:"mode"`
	Kind  string `json:"kind"`
}

type said struct {
	Env    map[string]string `json:"env"`
	Mounts []mount           `json:"mounts"`
}

func main() {
	seconds := flag.Float64("seconds", -1, "how long to wait; below zero until told to stop")
	status := flag.Int("status", 0, "the exit status")
	flag.Parse()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	_ = json.NewEncoder(os.Stdout).Encode(said{environment(), mounts()})
	var over <-chan time.Time
	if *seconds >= 0 {
		over = time.After(time.Duration(*seconds * float64(time.Second)))
	}
	select {
	case <-stop:
	case <-over:
	}
	os.Exit(*status)
}

func environment() map[string]string {
	found := map[string]string{}
	for _, one := range os.Environ() {
		name, value, _ := strings.Cut(one, "=")
		found[name] = value
	}
	return found
}

func mounts() []mount {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	found := []mount{}
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) < 6 {
			continue
		}
		kind := "missing"
		if status, err := os.Stat(words[4]); err == nil {
			kind = status.Mode().String()
		}
		mode, _, _ := strings.Cut(words[5], ",")
		found = append(found, mount{Place: words[4], Root: words[3], Mode: mode, Kind: kind})
	}
	return found
}
