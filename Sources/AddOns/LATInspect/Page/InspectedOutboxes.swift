internal import FoundationEssentials
internal import LATNetworking
internal import Platform
internal import Synchronization

/// The outboxes that the page shows. They are not kept alive.
final class InspectedOutboxes: Sendable {
    private let outboxes = Mutex(WeakList<Outbox>())

    /// The largest number of dead letters, and of other entries, that the page gets of an outbox.
    static let limit = 200

    func add(_ outbox: Outbox) { outboxes.withLock { $0.add(outbox) } }

    /// Answers `/outbox`.
    func answer() async -> LoopbackServer.Response {
        var boxes: [WireOutbox] = []
        for outbox in outboxes.withLock(\.objects) {
            do {
                let load = try await outbox.load
                let dead =
                    load.dead > 0 ? try await outbox.entries([.refused, .expired, .givenUp], limit: Self.limit) : []
                let others = try await outbox.entries([.waiting, .answered], limit: Self.limit)
                boxes.append(WireOutbox(outbox.folder, load, dead + others))
            } catch {
                boxes.append(WireOutbox(problem: "\(error)"))
            }
        }
        return .json(boxes)
    }

    /// What the page wants to become of an entry.
    private struct Change: Decodable {
        enum Action: String, Decodable { case retry, drop }

        var folder: String
        var id: Outbox.Entry.ID
        var action: Action
    }

    /// Answers a change of an entry.
    func change(_ request: LoopbackServer.Request) async -> LoopbackServer.Response {
        guard let change = try? JSONDecoder().decode(Change.self, from: request.body) else {
            return LoopbackServer.Response(status: 400, "The body has to be JSON with folder, id and action.")
        }
        guard let outbox = outboxes.withLock({ $0.objects.first { $0.folder == change.folder } }) else {
            return LoopbackServer.Response(status: 404, "The program has closed this outbox.")
        }
        do {
            switch change.action {
            case .retry: try await outbox.retry(change.id)
            case .drop: try await outbox.drop(change.id)
            }
            return LoopbackServer.Response("changed")
        } catch {
            return LoopbackServer.Response(status: 409, (error as? NetworkError)?.message ?? "\(error)")
        }
    }
}

/// An outbox as the page gets it. Times are in milliseconds, dates in those since 1970.
private struct WireOutbox: Encodable {
    var folder = ""
    var waiting = 0
    var sending = 0
    var answered = 0
    var dead = 0
    var size: Int64 = 0
    var oldest: Double?
    var sent = 0
    var failed = 0
    /// The process that sends, if one does, and whether it is this one.
    var sender: Int?
    var isSender = false
    /// Why nothing of it can be shown.
    var problem: String?
    var entries: [Entry] = []

    struct Entry: Encodable {
        var id: Int64
        var state: String
        var method: String?
        var address: String
        var group: String?
        var tag: String?
        var attempts: Int
        var size: Int64
        var added: Double
        var next: Double?
        var expires: Double?
        var status: Int?
        var reason: String?
    }

    init(problem: String) { self.problem = problem }

    init(_ folder: String, _ load: Outbox.Load, _ entries: [Outbox.Entry]) {
        self.folder = folder
        (waiting, sending, answered, dead) = (load.waiting, load.sending, load.answered, load.dead)
        (size, sent, failed) = (load.size, load.sent, load.failed)
        (sender, isSender) = (load.sender, load.isSender)
        oldest = load.oldest.map { $0 / .milliseconds(1) }
        self.entries = entries.map { entry in
            Entry(
                id: entry.id, state: entry.state.rawValue, method: entry.method, address: entry.address,
                group: entry.group, tag: entry.tag, attempts: entry.attempts, size: entry.size,
                added: Self.milliseconds(entry.added), next: entry.nextAttempt.map(Self.milliseconds),
                expires: entry.expires.map(Self.milliseconds), status: entry.status, reason: entry.reason)
        }
    }

    private static func milliseconds(_ date: Date) -> Double { (date.timeIntervalSince1970 * 1_000).rounded() }
}
