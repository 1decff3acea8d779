import CurlTransport
import FoundationEssentials
public import HTTPCore
import Synchronization

/// One call of an entity with its own settings. It is a value, so calls never affect each other.
///
/// ```swift
/// let reply = try await FetchUser(id: 42)
///     .timeout(.seconds(5)).header("User-Agent", "Demo/1").cache(.networkOnly)
///     .reply()
/// ```
///
/// The entity is read when the call is created; later changes of the entity do not affect the call.
public struct EntityCall<Model: Decodable & Sendable>: EntityRequest, Sendable {
    /// The entity's request, or why it could not be read; that error is thrown when the call is started.
    private let content: Result<EntityContent, NetworkError>
    var options: RequestOptions
    /// The header fields of the entity itself.
    private let entityHeaders: HTTPHeaders
    var extraParameters: Parameters = [:]
    var simulation: Simulation?
    package var progressHandler: ProgressHandler?

    init(_ entity: some RequestEntity) {
        content = Result { () throws(NetworkError) in try EntityContent(entity) }
        options = (entity as any RequestEntityContent).options ?? entity.options
        entityHeaders = options.headers
    }

    /// Creates a call of a route without an entity type.
    ///
    /// ```swift
    /// let call = EntityCall(Route(server: "user.detail"), parameters: ["id": 42], as: User.self)
    /// let user = try await call.timeout(.seconds(5)).startRequest(on: manager)
    /// ```
    ///
    /// - Parameters:
    ///   - route: a row of the server table, a domain with a path, or a URL.
    ///   - parameters: fill the names in braces of the path; the others go into the query or the body. Default none.
    ///   - files: parts of a multipart body. Default none.
    ///   - model: the type that the response is decoded to. Default ``JSONValue``.
    public init(
        _ route: Route, parameters: Parameters? = nil, files: [UploadFile] = [],
        as model: Model.Type = JSONValue.self
    ) {
        content = Result { () throws(NetworkError) in
            try EntityContent(route: route, parameters: parameters, files: files)
        }
        options = RequestOptions()
        entityHeaders = HTTPHeaders()
    }

    /// The route; `nil` when the entity could not be read.
    var route: Route? { try? content.get().route }

    /// This call itself.
    public var call: EntityCall { self }

    package func plan() throws(NetworkError) -> EntityPlan {
        var content = try content.get()
        if !extraParameters.isEmpty {
            let extra = try RequestBuilder.deferred(extraParameters)
            for name in extraParameters.keys { content.parameters.remove(name) }
            content.parameters.addMissing(extra)
        }
        return EntityPlan(content: content, options: options, entityHeaders: entityHeaders, simulation: simulation)
    }
}

/// An entity's description of its request, read once.
package struct EntityContent: Sendable {
    package let route: Route
    package var parameters = EncodedMembers()
    /// The encoded properties, kept beside explicit parameters because they may fill the path.
    var properties = EncodedMembers()
    package private(set) var files: [UploadFile]
    /// The body that the entity makes itself.
    package var body: HTTPBody?
    /// The name of a type whose properties are not read because it is not `Encodable`; otherwise `nil`.
    var unreadType: String?
    /// Identifies the entity, to cancel its calls; `nil` for a call without an entity.
    var reference: EntityReference?

    /// What an entity has that does not say it.
    static let noParameters: Parameters = ["\0": nil]
    static let noBody = HTTPBody.data(Data(), contentType: "\0")

    init<Entity: RequestEntity>(_ entity: Entity) throws(NetworkError) {
        let content: any RequestEntityContent = entity
        route = Entity.route
        files = content.files ?? entity.files
        let (whole, given): (HTTPBody, Parameters) = (content.body, content.parameters)
        body = entity.body ?? (whole == Self.noBody ? nil : whole)
        let explicit: Parameters? = entity.parameters ?? (given.keys.contains("\0") ? nil : given)
        let encodable = entity as? any Encodable
        if let explicit {
            parameters = try RequestBuilder.deferred(explicit)
            if let encodable { properties = (try? RequestBuilder.properties(of: encodable, "")) ?? EncodedMembers() }
        } else if let encodable {
            parameters = try RequestBuilder.properties(of: encodable, "give it `parameters`")
        } else {
            unreadType = UnreadProperties.type(of: entity)
        }
        reference = EntityReference(type: ObjectIdentifier(Entity.self), parameters: parameters, properties: properties)
    }

    init(route: Route, parameters: EncodedMembers, files: [UploadFile]) {
        (self.route, self.parameters, self.files) = (route, parameters, files)
    }

    /// Makes the only file the whole body, as an upload that can go on needs it.
    ///
    /// - Returns: the name of the file, if it has one of its own.
    package mutating func takeFileAsBody() throws(NetworkError) -> String? {
        if files.isEmpty, case .file? = body?.content { return nil }
        guard files.count == 1, let file = files.first, case .path(let path) = file.source, body == nil else {
            throw .invalidRequest(
                "a row with \"uploads\" takes one file that is on the disk, as the whole body; give one "
                    + "UploadFile(name:path:), or use a row without \"uploads\"")
        }
        body = .file(path, contentType: file.contentType)
        files = []
        return file.fileName
    }

    /// The content of a request without an entity.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter that cannot be encoded.
    package init(route: Route, parameters: Parameters?, files: [UploadFile]) throws(NetworkError) {
        self.route = route
        self.files = files
        if let parameters { self.parameters = try RequestBuilder.deferred(parameters) }
    }
}

/// Warns about entities whose stored properties are not sent, because the type is not `Encodable`.
private enum UnreadProperties {
    /// Whether a type has stored properties.
    private static let known = Mutex<[ObjectIdentifier: Bool]>([:])

    /// The type's name if it has stored properties. The first time, a line on standard error says so.
    static func type<Entity: RequestEntity>(of entity: Entity) -> String? {
        let id = ObjectIdentifier(Entity.self)
        if let isUnread = known.withLock({ $0[id] }) { return isUnread ? "\(Entity.self)" : nil }
        let mirror = Mirror(reflecting: entity)
        let isUnread = mirror.displayStyle != .enum && !mirror.children.isEmpty
        let isFirst = known.withLock { $0.updateValue(isUnread, forKey: id) == nil }
        guard isUnread else { return nil }
        if isFirst {
            RequestLog.standardError(
                "LATNetworking: \(Entity.self) has stored properties but is not Encodable, so none of them is sent; "
                    + "declare it Encodable, or give it `parameters`")
        }
        return "\(Entity.self)"
    }
}

/// Everything a manager needs to send an entity's request.
package struct EntityPlan: Sendable {
    package var content: EntityContent
    var options: RequestOptions
    /// The header fields of the entity itself, which those of `options` may replace.
    var entityHeaders: HTTPHeaders
    var simulation: Simulation?
    /// The total timeout where neither the call nor a row sets one; `nil` for the manager's.
    package var standardTimeout: Duration?
    /// Receives the bytes that are read from the files of an upload.
    package var bodyHandler: BodyHandler?
    /// The entry of an outbox that the call is of.
    package var entry: RequestContext.KeptEntry?
    /// Whether the body of the response is delivered as a stream.
    var streams = false
    /// Whether the connection stays open. The rows' total timeout is for calls that end by
    /// themselves, so it does not apply.
    var isLive = false
    /// Whether it asks for another protocol.
    var upgrades = false
    /// What a response has made of the request: that of another page, or of the state of a job; `nil` for none.
    var followUp: FollowUp?

    package init(
        content: EntityContent, options: RequestOptions, entityHeaders: HTTPHeaders, simulation: Simulation? = nil
    ) {
        self.content = content
        self.options = options
        self.entityHeaders = entityHeaders
        self.simulation = simulation
    }

    /// Turns the request into the one that follows a response.
    mutating func go(to step: FollowUp) throws(NetworkError) {
        followUp = step
        guard !step.parameters.isEmpty else { return }
        for name in step.parameters.keys { content.parameters.remove(name) }
        content.parameters.addMissing(try RequestBuilder.deferred(step.parameters.mapValues(Optional.some)))
    }
}
