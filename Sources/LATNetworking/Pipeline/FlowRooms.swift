import HTTPCore

/// What happens to a call as a whole, around the corridor's rooms: deadline, duplicates, barriers, in that order.
///
/// They run what follows in tasks of their own where it must end before, or go on after, its caller. So they are no
/// interceptors; to a call that uses none of them they cost a look.
struct FlowRooms: Sendable {
    let deadline: Duration?
    let duplicates: DuplicateRoom
    let barrier = BarrierRoom()
    var clock = FlowClock.continuous

    init(deadline: Duration? = nil, duplicates: DuplicatePolicy = .allow) {
        self.deadline = deadline
        self.duplicates = DuplicateRoom(duplicates)
    }

    func isIdle(for request: HTTPRequest) -> Bool {
        deadline(of: request) == nil && duplicates.policy(for: request) == .allow && barrier.isIdle(for: request)
    }

    func send(_ request: HTTPRequest, _ rest: @escaping DuplicateRoom.Rest) async throws -> HTTPResponse {
        guard let deadline = deadline(of: request) else { return try await share(request, rest) }
        let limited = beginning(request)
        let left = (limited.flow.deadlineAt ?? .zero) - clock.now()
        guard left > .zero else { throw Self.late(deadline, request) }
        return try await clock.run(within: left, for: request, late: { Self.late(deadline, request) }) {
            try await share(limited, rest)
        }
    }

    /// The request with the moment when its time is over. It is that of the call: to be sent again gives no new time.
    func beginning(_ request: HTTPRequest) -> HTTPRequest {
        guard let deadline = deadline(of: request), request.flow.deadlineAt == nil else { return request }
        var limited = request
        limited.flow.deadlineAt = clock.now() + deadline
        return limited
    }

    private func share(_ request: HTTPRequest, _ rest: @escaping DuplicateRoom.Rest) async throws -> HTTPResponse {
        try await duplicates.send(request) { request in
            barrier.isIdle(for: request) ? try await rest(request) : try await barrier.send(request, rest)
        }
    }

    private func deadline(of request: HTTPRequest) -> Duration? {
        (request.flowOptions as? FlowOptions)?.deadline ?? deadline
    }

    private static func late(_ deadline: Duration, _ request: HTTPRequest) -> NetworkError {
        NetworkError(
            .timeout(.deadline),
            message: "not done within \(deadline), repetitions and waits included; raise the deadline",
            request: request)
    }
}
