import Foundation
import FoundationNetworking
import LATNetworking

/// The parts of URLSession that the probes use.
enum Theirs {
    static func session(_ change: (URLSessionConfiguration) -> Void = { _ in }) -> URLSession {
        let configuration = URLSessionConfiguration.ephemeral
        change(configuration)
        return URLSession(configuration: configuration)
    }

    static func request(_ url: String, _ change: (inout URLRequest) -> Void = { _ in }) throws -> URLRequest {
        guard let url = URL(string: url) else { throw URLError(.badURL) }
        var request = URLRequest(url: url)
        change(&request)
        return request
    }

    static func send(_ request: URLRequest, _ session: URLSession = session()) async throws -> HTTPURLResponse {
        guard let response = try await session.data(for: request).1 as? HTTPURLResponse else {
            throw URLError(.badServerResponse)
        }
        return response
    }
}

func brief(_ error: any Error) -> String {
    if let error = error as? NetworkError { return "\(error.kind)" }
    if let error = error as? URLError { return "URLError \(error.errorCode)" }
    return "\(type(of: error))"
}

/// Runs an operation and describes its duration in words that are the same in every run.
func timed(_ limit: Duration, _ body: () async throws -> Void) async -> String {
    let start = ContinuousClock.now
    var end = "a response"
    do { try await body() } catch { end = brief(error) }
    let taken = ContinuousClock.now - start
    let when = taken < limit * 0.8 ? "early" : taken > limit * 2 ? "late" : "in time"
    return "\(end), \(when)"
}
