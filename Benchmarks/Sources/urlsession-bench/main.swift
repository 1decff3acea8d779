// The cost of the same work with Foundation's URLSession. Modes: concurrent, latency, download.

import BenchmarkSupport
import Foundation
import FoundationNetworking

let arguments = Arguments(modes: ["concurrent", "latency", "download"])
let configuration = URLSessionConfiguration.ephemeral
configuration.httpMaximumConnectionsPerHost = arguments.inFlight
configuration.urlCache = nil
let session = URLSession(configuration: configuration)
guard let url = URL(string: arguments.url) else { throw Failure("not a URL: \(arguments.url)") }

@Sendable func get(_ number: Int) async throws {
    let (data, response) = try await session.data(for: URLRequest(url: url))
    guard (response as? HTTPURLResponse)?.statusCode == 200, !data.isEmpty else {
        throw Failure("\(url): the response is not a 200 with a body")
    }
}

if arguments.mode == "download" {
    guard let file = arguments.file else { throw Failure("download needs a FILE") }
    let measurement = Measurement("urlsession", arguments)
    let (temporary, _) = try await session.download(for: URLRequest(url: url))
    try FileManager.default.moveItem(at: temporary, to: URL(fileURLWithPath: file))
    measurement.finish()
} else {
    if arguments.warmup > 0 { _ = try await repeating(arguments.warmup, tasks: arguments.inFlight, get) }
    let measurement = Measurement("urlsession", arguments)
    let latencies = try await repeating(arguments.requests, tasks: arguments.inFlight, get)
    measurement.finish(latencies: latencies)
}
// Exits at once, so that the session's threads do not add to the measured times.
exit(0)
