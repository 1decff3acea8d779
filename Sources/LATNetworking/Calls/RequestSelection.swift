import HTTPCore

/// A selection of a manager's running calls.
///
/// ```swift
/// manager.cancelRequests(.tag("feed"))
/// manager.cancelRequests(.url("/users"))              // with or without a query
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

    /// The call with this key: ``RequestTask/key``, ``UploadTask/key``, ``Download/key``, ``ObservedCall/key``.
    public static func key(_ key: String) -> RequestSelection { RequestSelection(.keys([key])) }

    /// The calls with one of these keys.
    public static func keys(_ keys: some Sequence<String>) -> RequestSelection { RequestSelection(.keys(Set(keys))) }

    /// The calls with this tag.
    public static func tag(_ tag: String) -> RequestSelection { RequestSelection(.tag(tag)) }

    /// The calls to this address, either a path below the base URL or an absolute URL. An address without a query also
    /// matches the same address with a query. The comparison is case-sensitive.
    public static func url(_ url: String) -> RequestSelection { RequestSelection(.url(url)) }
}

/// The entity that a call belongs to, kept in a form that is cheap to make. Its `identity` is made when it is compared.
struct EntityReference: Sendable {
    let type: ObjectIdentifier
    let parameters: EncodedMembers
    let properties: EncodedMembers

    var identity: EntityIdentity { EntityIdentity(type: type, parameters: parameters, properties: properties) }
}

/// The identity of an entity in selections: its type, parameters and properties.
struct EntityIdentity: Hashable, Sendable {
    let type: ObjectIdentifier
    let parameters: EncodedMembers
    let properties: EncodedMembers
}
