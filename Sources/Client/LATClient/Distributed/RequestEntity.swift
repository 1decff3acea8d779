public import HTTPCore

/// A type that describes its own request and can start it: any struct, class, enum or actor of the app.
///
/// ```swift
/// struct FetchUser: RequestEntity, Encodable {
///     typealias Model = User                                   // leave it out and Model is JSONValue
///     static let route = Route("GET", server: "user.detail")
///     var id: Int                                              // goes into {id} of the path, or into the parameters
/// }
/// let user = try await FetchUser(id: 42).startRequest()
/// ```
///
/// An extension makes an existing type an entity. The entity is read when the request is started; later changes do not
/// affect that request. Starting an entity twice sends two requests.
public protocol RequestEntity: EntityRequest, RequestEntityContent {
    /// The type that the response is decoded to. Default ``JSONValue``. If it is an optional or ``Empty``, the response may
    /// have no content.
    associatedtype Model: Decodable & Sendable = JSONValue

    /// Where the request goes: a row of the table, a domain with a path, or a URL.
    static var route: Route { get }

    /// The parameters. Default `nil`: the encoded properties when the type is `Encodable`, otherwise none. Numbers stay
    /// numbers, `nil` properties are left out unless the type encodes them itself (`encode(nil, forKey:)`), nested values are
    /// kept. A body without other members is `{}`.
    var parameters: Parameters? { get }

    /// Files of a multipart request. Default none.
    var files: [UploadFile] { get }

    /// The body, if the parameters are not its members: an array, bytes, a file, a stream. The parameters then go into the
    /// query. Default `nil`: the parameters are the body where the method has one.
    ///
    /// ```swift
    /// var body: HTTPBody? { .json(["a", "b"]) }
    /// ```
    var body: HTTPBody? { get }

    /// The entity's own settings: headers, timeout, cache policy and the rest. Default none.
    ///
    /// ```swift
    /// var options: RequestOptions { RequestOptions(timeout: .seconds(5), headers: ["X-Client": "demo"]) }
    /// ```
    var options: RequestOptions { get }
}

/// The properties of an entity with the other optionality: `var body: HTTPBody`, without a question mark, counts like
/// ``RequestEntity/body``, and `var files: [UploadFile]?` like ``RequestEntity/files``. Swift alone would use the defaults, and send
/// nothing of them. An entity has each property once, in one of the two forms.
public protocol RequestEntityContent {
    /// The parameters of an entity that always has some.
    var parameters: Parameters { get }
    /// The body of an entity that always has one.
    var body: HTTPBody { get }
    /// The files of an entity that may have some.
    var files: [UploadFile]? { get }
    /// The settings of an entity that may have some.
    var options: RequestOptions? { get }
}

extension RequestEntityContent {
    /// Stands for none.
    public var parameters: Parameters { EntityContent.noParameters }

    /// Stands for none.
    public var body: HTTPBody { EntityContent.noBody }

    /// None.
    public var files: [UploadFile]? { nil }

    /// None.
    public var options: RequestOptions? { nil }
}

extension RequestEntity {
    /// `nil`: the encoded properties are the parameters.
    public var parameters: Parameters? { nil }

    /// No files.
    public var files: [UploadFile] { [] }

    /// The parameters are the body.
    public var body: HTTPBody? { nil }

    /// No settings.
    public var options: RequestOptions { RequestOptions() }

    /// A call with the current values of this entity.
    public var call: EntityCall<Model> { EntityCall(self) }
}
