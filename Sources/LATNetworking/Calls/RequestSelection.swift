import HTTPCore

/// Which of a manager's running calls are meant.
///
/// ```swift
/// manager.cancelRequests(.tag("feed"))
/// manager.cancelRequests(.url("/users"))              // with any query
/// manager.cancelRequests(.entity(FetchUser.self))
/// manager.cancelRequests(.entity(FetchUser(id: 42)))
/// manager.cancelRequests(.keys(tasks.map(\.key)))
/// manager.cancelRequests(.all)
/// ```
public struct RequestSelection: Sendable {
    enum Kind: Hashable, Sendable {
        case all
        case keys(Set<String>)
        case tag(String)
        case url(String)
        case entityType(ObjectIdentifier)
        case entity(EntityIdentity)
    }

    let kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    /// Every call.
    public static let all = RequestSelection(.all)

    /// The call that has this key: ``RequestTask/key``, ``UploadTask/key``, ``Download/key``, ``ObservedCall/key``.
    public static func key(_ key: String) -> RequestSelection { RequestSelection(.keys([key])) }

    /// The calls that have one of these keys.
    public static func keys(_ keys: some Sequence<String>) -> RequestSelection { RequestSelection(.keys(Set(keys))) }

    /// The calls with this tag.
    public static func tag(_ tag: String) -> RequestSelection { RequestSelection(.tag(tag)) }

    /// The calls to this address, a path of the base URL or a whole one. Without a query it stands for the address with
    /// any; upper and lower case count.
    public static func url(_ url: String) -> RequestSelection { RequestSelection(.url(url)) }
}

/// What entity a call is of, kept until somebody asks whether it is a certain one.
struct EntityReference: Sendable {
    let type: ObjectIdentifier
    let parameters: EncodedMembers
    let properties: EncodedMembers

    var identity: EntityIdentity { EntityIdentity(type: type, parameters: parameters, properties: properties) }
}

/// An entity as a selection means it: its type, and what it says of its request.
struct EntityIdentity: Hashable, Sendable {
    let type: ObjectIdentifier
    let parameters: EncodedMembers
    let properties: EncodedMembers
}
