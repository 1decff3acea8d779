/// Who shares which request. A pure state machine: it says what to do, the room does it.
struct SharedCalls<Key: Hashable & Sendable, ID: Hashable & Sendable>: Sendable {
    private struct Call {
        let token: UInt64
        var members: Set<ID>
    }

    enum Entry: Hashable {
        /// Nobody has sent it: the caller starts it, and ends it by this token.
        case lead(token: UInt64)
        /// It is under way.
        case follow(token: UInt64)
    }

    private var calls: [Key: Call] = [:]
    private var tokens: UInt64 = 0

    /// How many are under way.
    var count: Int { calls.count }

    /// A caller comes.
    mutating func join(_ key: Key, _ id: ID) -> Entry {
        if let call = calls[key] {
            calls[key]?.members.insert(id)
            return .follow(token: call.token)
        }
        tokens += 1
        calls[key] = Call(token: tokens, members: [id])
        return .lead(token: tokens)
    }

    /// Whether the request is under way.
    func isRunning(_ key: Key) -> Bool { calls[key] != nil }

    /// A caller leaves before the end. Returns whether it was the last, so that the request is cancelled; who comes
    /// later starts a new one.
    mutating func leave(_ key: Key, _ id: ID, token: UInt64) -> Bool {
        guard calls[key]?.token == token, calls[key]?.members.remove(id) != nil, calls[key]?.members.isEmpty == true
        else { return false }
        calls[key] = nil
        return true
    }

    /// The request is over. Returns who gets its answer.
    mutating func finish(_ key: Key, token: UInt64) -> Set<ID> {
        guard let call = calls[key], call.token == token else { return [] }
        calls[key] = nil
        return call.members
    }
}
