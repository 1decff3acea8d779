import BenchmarkSupport
import LATNetworking

/// Mode `waiting`: starts the requests, waits until each has its connection and the program is idle, then measures the
/// resident memory and, for three seconds, the processor time.
func wait(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    Resources.raiseDescriptorLimit()
    let clock = ContinuousClock()
    let memoryBefore = Resources.residentKilobytes
    let descriptorsBefore = Resources.openDescriptors

    let requests = Task {
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<arguments.requests {
                group.addTask { _ = try? await manager.startRequest("GET", arguments.url) }
            }
        }
    }
    let deadline = clock.now + .seconds(60)
    while Resources.openDescriptors < descriptorsBefore + arguments.requests {
        guard clock.now < deadline else { throw Failure("not every request got its connection within a minute") }
        try await Task.sleep(for: .milliseconds(100))
    }
    try await Task.sleep(for: .seconds(1))

    let memory = Resources.residentKilobytes
    let inFlight = Resources.openDescriptors - descriptorsBefore
    let start = clock.now
    let cpuAtStart = Resources.cpuSeconds
    try await Task.sleep(for: .seconds(3))
    let cpu = Resources.cpuSeconds - cpuAtStart
    let seconds = (clock.now - start).inMicroseconds / 1e6
    guard inFlight >= arguments.requests, Resources.openDescriptors - descriptorsBefore >= arguments.requests else {
        throw Failure("requests ended while they should have waited")
    }
    Measurement.report(
        "lat", "waiting",
        [
            ("requests", Double(arguments.requests)), ("in_flight", Double(inFlight)), ("seconds", seconds),
            ("cpu_seconds", cpu), ("kb_per_request", Double(memory - memoryBefore) / Double(arguments.requests)),
            ("rss_kb", Double(memory)), ("rss_peak_kb", Double(Resources.peakKilobytes)),
        ])
    requests.cancel()
    await requests.value
}
