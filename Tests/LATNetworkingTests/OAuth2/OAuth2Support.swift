import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// A time of day that a test sets.
final class WallClock: Sendable {
    private let time = Box(Date(timeIntervalSince1970: 1_800_000_000))

    var now: Date { time.value }

    func advance(by seconds: Double) { time.change { $0 = $0.addingTimeInterval(seconds) } }
}

/// A store in memory that may fail.
final class TestStore: OAuth2.TokenStore {
    struct Full: Error, CustomStringConvertible {
        var description: String { "the disk is full" }
    }

    let stored = Box<OAuth2.Token?>(nil)
    let isFull = Box(false)

    func token() async throws -> OAuth2.Token? { stored.value }

    func store(_ token: OAuth2.Token?) async throws {
        if isFull.value { throw Full() }
        stored.change { $0 = token }
    }
}

extension OAuth2 {
    static func make(
        _ settings: Settings, store: (any TokenStore)? = nil, clock: WallClock? = nil, warnings: Box<[String]>? = nil,
        pause: @escaping @Sendable (Duration) async throws -> Void = { _ in }
    ) throws -> OAuth2 {
        try OAuth2(
            settings, store: store, warningHandler: { text in warnings?.change { $0.append(text) } },
            clock: { clock?.now ?? .now }, pause: pause)
    }
}

extension CentralRequestManager {
    static func make(_ authenticator: OAuth2) throws -> CentralRequestManager {
        try make { $0.authenticator = authenticator }
    }
}
