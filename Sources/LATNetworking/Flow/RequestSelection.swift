import HTTPCore

/// Which of a manager's running calls are meant.
///
/// ```swift
/// manager.cancelRequests(.tag("feed"))
/// manager.cancelRequests(.url("/users"))              // with any query
/// manager.cancelRequests(.entity(FetchUser.self))
/// manager.cancelRequests(.entity(FetchUser(id: 42)))
/// manager.cancelRequests(.all)
/// ```
public struct RequestSelection: Sendable {
    enum Kind: Hashable, Sendable {
        case all
        case key(String)
        case tag(String)
        case url(String)
        case entityType(ObjectIdentifier)
        case entity(EntityIdentity)
    }

    let kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    /// Every call.
    public static let all = RequestSelection(.all)

    /// The call in closure form that has this key (``RequestTask/key``).
    public static func key(_ key: String) -> RequestSelection { RequestSelection(.key(key)) }

    /// The calls with this tag.
    public static func tag(_ tag: String) -> RequestSelection { RequestSelection(.tag(tag)) }

    /// The calls to this address, a path of the base URL or a whole one. Without a query it stands for the address with
    /// any; upper and lower case count.
    public static func url(_ url: String) -> RequestSelection { RequestSelection(.url(url)) }
}

/// What entity a call is of: its type, and what it says of its request.
struct EntityIdentity: Hashable, Sendable {
    let type: ObjectIdentifier
    let parameters: [String: JSONValue]
    let properties: [String: JSONValue]
}

/// What is known of a running call, to find it by.
struct CallIdentity: Sendable {
    /// The address, without the query that parameters make; looked up when asked for, because the entity's rows say.
    enum Address: Sendable {
        case known(String)
        case later(@Sendable () -> String?)

        var text: String? {
            switch self {
            case .known(let text): text
            case .later(let find): find()
            }
        }
    }

    var key: String?
    var tag: String?
    var address: Address
    var entity: EntityIdentity?

    func matches(_ kind: RequestSelection.Kind) -> Bool {
        switch kind {
        case .all: true
        case .key(let key): self.key == key
        case .tag(let tag): self.tag == tag
        case .url(let url): address.text.map { Self.isSame($0, as: url) } ?? false
        case .entityType(let type): entity?.type == type
        case .entity(let entity): self.entity == entity
        }
    }

    private static func isSame(_ address: String, as wanted: String) -> Bool {
        if address == wanted { return true }
        return !wanted.utf8.contains(UInt8(ascii: "?")) && address.utf8.count > wanted.utf8.count
            && address.utf8.starts(with: wanted.utf8)
            && address.utf8.dropFirst(wanted.utf8.count).first == UInt8(ascii: "?")
    }
}
