@testable import LATClient

extension Stage {
    /// Runs the stage in a new call, with a function in place of everything after it.
    func intercept(
        _ request: HTTPRequest, next: @escaping @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        try await handle(request, Chain(Call(request), StageTable([:], .custom(FunctionTransport(next))), []))
    }
}

/// A transport that sends by calling a function.
struct FunctionTransport: Transport {
    private let function: @Sendable (HTTPRequest) async throws -> HTTPResponse

    init(_ function: @escaping @Sendable (HTTPRequest) async throws -> HTTPResponse) { self.function = function }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse { try await function(request) }
}
