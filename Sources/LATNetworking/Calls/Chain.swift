import CurlTransport
import HTTPCore
import Platform

/// Where a call stands on its way down the corridor, and the way on from there.
///
/// A room gets the request and the chain; it may change the request, answer by itself, look at the answer, or go on more
/// than once. It sees the call, and so what has gone out for it.
struct Chain: Sendable {
    let call: Call
    /// How many redirects were followed to get here.
    private(set) var hop = 0

    private let table: RoomTable
    private var rooms: RoomSet

    init(_ call: Call, _ table: RoomTable, _ rooms: RoomSet) {
        self.call = call
        self.table = table
        self.rooms = rooms
    }

    /// Goes on with a request, to the next room or to the network.
    func proceed(_ request: HTTPRequest) async throws -> HTTPResponse {
        guard let place = rooms.first else { return try await table.transmit(request, self) }
        var rest = self
        rest.rooms.remove(place)
        return try await table[place].handle(request, rest)
    }

    /// The chain of a redirect's next hop.
    func following(hop: Int) -> Chain {
        var chain = self
        chain.hop = hop
        return chain
    }

    /// The same rest of the way for another call: one that is shared, or that refreshes what is cached.
    func on(_ call: Call) -> Chain { Chain(call, table, rooms) }
}

/// A room along the corridor.
protocol Room: Sendable {
    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse
}

/// The rooms of a manager, and what sends at their end.
final class RoomTable: Sendable {
    /// What sends: the engine, or a stand-in of the app, which knows nothing of calls.
    enum Sender: Sendable {
        case engine(CurlTransport)
        case custom(any Transport)
    }

    private let rooms: [any Room]
    private let sender: Sender
    let limits: TimeLimits

    init(_ rooms: [Place: any Room], _ sender: Sender, _ limits: TimeLimits = TimeLimits()) {
        self.rooms = Place.allCases.map { rooms[$0] ?? PassingRoom() }
        self.sender = sender
        self.limits = limits
    }

    fileprivate subscript(place: Place) -> any Room { rooms[Int(place.rawValue)] }

    /// The end of a chain: the request goes out, and the call notes it.
    fileprivate func transmit(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        call.note { $0.begins(request, hop: chain.hop) }
        do {
            let response = try await send(request, for: call)
            call.note { $0.ended(request, .success(response)) }
            return response
        } catch {
            call.note { $0.ended(request, .failure(error)) }
            throw error
        }
    }

    /// Sends a request of a call that nothing would send again.
    func send(_ request: HTTPRequest, for call: Call) async throws -> HTTPResponse {
        switch sender {
        case .engine(let engine):
            return try await engine.send(request, for: call)
        case .custom(let transport):
            // It knows nothing of calls: it runs in a task of its own, which ends with the call.
            return try await limits.run(for: call) { try await transport.send(request) }
        }
    }

    /// A place where nothing stands.
    private struct PassingRoom: Room {
        func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
            try await chain.proceed(request)
        }
    }
}

/// The rooms along the corridor, in their order: the order is the behaviour, so it is written in one place, here.
enum Place: UInt32, CaseIterable {
    /// Refuses a call when the same one is under way.
    case rejection
    /// Holds calls while a barrier is under way.
    case barrier
    /// The app's interceptors: one request, with all that is known of it before the providers are asked, and its final
    /// answer.
    case interceptors
    /// Sends again as the policy and the budget say.
    case retry
    /// Waits for the network when no connection came about.
    case connectivity
    /// Puts the token on each attempt, and has it renewed when it is refused.
    case authentication
    /// Goes to a domain's next address when one cannot be connected to.
    case mirrors
    /// Headers by precedence and common parameters; the providers are asked once for each attempt.
    case composition
    /// Lets equal requests share one answer: inside barrier and token, so that no call waits for one that waits for it, and
    /// inside of composition, since the credentials count.
    case sharing
    /// Answers in the server's place.
    case simulation
    /// The app's cache policies: what is stored is the answer to the call, whatever way led to it.
    case cache
    /// RFC 9111 around sealed messages: what is kept was opened.
    case httpCacheOfOpened
    /// Seals the content and opens that of the reply.
    case seal
    /// The app's cache policies inside of sealing: what is kept is sealed.
    case cacheOfSealed
    /// Signs what is sent, as it is sent.
    case sign
    /// Follows redirects: every hop is a request of its own to what comes after.
    case redirect
    /// RFC 9111: every hop is stored under its own URL.
    case httpCache
    /// Concurrency, rate and circuit: inside the caches, so that what needs no network takes no place, and inside
    /// composition, so that a provider that sends requests holds none.
    case limits
    /// Tells the watchers of each attempt and hop, and puts the span of the trace on.
    case attempt
    /// The app's network interceptors: each attempt and each hop as it is sent.
    case networkInterceptors
}

/// Some of the rooms.
struct RoomSet: OptionSet, Sendable {
    var rawValue: UInt32

    init(rawValue: UInt32) { self.rawValue = rawValue }

    init(_ places: Place...) { rawValue = places.reduce(0) { $0 | 1 << $1.rawValue } }

    var first: Place? { rawValue == 0 ? nil : Place(rawValue: UInt32(rawValue.trailingZeroBitCount)) }

    func contains(_ place: Place) -> Bool { rawValue & 1 << place.rawValue != 0 }

    mutating func insert(_ place: Place) { rawValue |= 1 << place.rawValue }

    mutating func remove(_ place: Place) { rawValue &= ~(1 << place.rawValue) }

    /// Puts a room in, or takes it out.
    mutating func set(_ place: Place, _ isIn: Bool) { if isIn { insert(place) } else { remove(place) } }
}

/// What a task is in the middle of, so that requests it makes there do not wait for themselves.
enum CallScope {
    /// The rooms of authentication whose token is being renewed by this task.
    @TaskLocal static var renewing: Set<ObjectIdentifier> = []
    /// The barriers that this task holds closed.
    @TaskLocal static var closing: Set<ObjectIdentifier> = []
}
