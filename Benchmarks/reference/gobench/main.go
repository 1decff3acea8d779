// Measures the same work in Go with net/http.
//
//	gobench concurrent URL REQUESTS IN_FLIGHT WARMUP
//	gobench latency    URL REQUESTS 1 WARMUP
//
// Prints one line of JSON. CPU time is user + system over the measured requests only, after the warm-up.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func fail(reason any) {
	fmt.Fprintln(os.Stderr, "gobench:", reason)
	os.Exit(1)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// The peak memory of this program. ru_maxrss is not used, because it includes the memory of the parent before exec.
func peakKilobytes() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			return number(fields[1])
		}
	}
	return 0
}

func get(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != 200 || len(body) == 0 {
		return fmt.Errorf("%s: status %d, %d bytes", url, response.StatusCode, len(body))
	}
	return nil
}

// Sends total requests from this many workers and returns the duration of each in microseconds.
func run(client *http.Client, url string, total, workers int) []float64 {
	latencies := make([]float64, total)
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				index := int(next.Add(1)) - 1
				if index >= total {
					return
				}
				started := time.Now()
				if err := get(client, url); err != nil {
					fail(err)
				}
				latencies[index] = float64(time.Since(started).Nanoseconds()) / 1e3
			}
		}()
	}
	group.Wait()
	return latencies
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < 0 {
		fail("not a number: " + text)
	}
	return value
}

func main() {
	if len(os.Args) < 6 || (os.Args[1] != "concurrent" && os.Args[1] != "latency") {
		fail("usage: gobench concurrent|latency URL REQUESTS IN_FLIGHT WARMUP")
	}
	mode, url := os.Args[1], os.Args[2]
	total, workers, warmup := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = workers
	transport.MaxConnsPerHost = workers
	client := &http.Client{Transport: transport}

	run(client, url, warmup, workers)
	started, cpu := time.Now(), cpuSeconds()
	latencies := run(client, url, total, workers)
	cpu = cpuSeconds() - cpu
	seconds := time.Since(started).Seconds()

	sort.Float64s(latencies)
	line, err := json.Marshal(map[string]any{
		"program": "go", "mode": mode, "requests": total, "in_flight": workers,
		"seconds": seconds, "cpu_seconds": cpu, "cpu_us_per_request": cpu / float64(total) * 1e6,
		"rss_peak_kb": peakKilobytes(), "requests_per_second": float64(total) / seconds,
		"p50_us": latencies[total/2], "p99_us": latencies[total*99/100],
	})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}
