import BenchmarkSupport
import LATRealtime

/// Mode `events`: reads an event stream that has exactly the given number of events.
func events(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let measurement = Measurement("lat", arguments)
    var count = 0
    for try await event in manager.events("GET", arguments.url) {
        count += 1
        guard event.id == String(count) else { throw Failure("event \(count) has the id \(event.id)") }
    }
    guard count == arguments.requests else { throw Failure("\(count) events, not \(arguments.requests)") }
    measurement.finish()
}
