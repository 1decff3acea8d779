import FoundationEssentials
import Glibc
import HTTPCore
import LATFleet
import LATNetworking
import Platform
import ResponseCache

/// Writes a line with one system call, so that it arrives completely or not at all.
private func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    if write(STDOUT_FILENO, bytes, bytes.count) != bytes.count { exit(3) }
}

private func milliseconds() -> Int64 { MonotonicTime.now.nanoseconds / 1_000_000 }

/// A network of changing speed: of two fetches that overlap, the one that begins or ends later may have the older answer.
private struct Unsteady: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        try await Task.sleep(for: .milliseconds(Int.random(in: 0...100)))
        let response = try await next(request)
        try await Task.sleep(for: .milliseconds(Int.random(in: 0...100)))
        return response
    }
}

/// Reads keys through a fleet's cache until it is killed, and prints what it sees:
/// `read KEY VERSION START END SOURCE`, or `failed KEY ERROR`. Times are milliseconds of the system's monotonic clock.
func readUntilKilled(socket: String, password: String, origin: String, keyCount: Int) async throws {
    var settings = FleetConfiguration()
    settings.address = .unixSocket(path: socket)
    settings.password = password
    settings.maxReconnectPause = .milliseconds(500)
    settings.warningHandler = { _ in }
    let fleet = try Fleet(settings)
    var options = FleetCacheOptions()
    options.leaseWait = .seconds(1)
    options.maxLease = .seconds(1)
    var configuration = CentralRequestManager.Configuration()
    configuration.proxy = .direct
    configuration.cachePolicy = .http
    configuration.cacheMode = .shared
    configuration.cacheStore = try fleet.cache(above: MemoryStore(), options)
    configuration.networkInterceptors = [Unsteady()]
    // A look-up that a busy machine makes late is no failure.
    configuration.cacheObserver = { _ in }
    let manager = try CentralRequestManager(configuration: configuration)
    await withTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
            group.addTask {
                while true {
                    let key = Int.random(in: 0..<keyCount)
                    let start = milliseconds()
                    do {
                        let response = try await manager.startRequest("GET", "\(origin)/\(key)")
                        let text = String(decoding: response.body.data ?? Data(), as: UTF8.self)
                        say("read \(key) \(text) \(start) \(milliseconds()) \(response.source)")
                    } catch {
                        say("failed \(key) \(error)")
                    }
                    try? await Task.sleep(for: .milliseconds(Int.random(in: 0...8)))
                }
            }
        }
    }
}
