import FoundationEssentials
public import HTTPCore
public import LATClient
import Glibc
import Platform

/// Requests that outlive the process: they are written to a folder, and sent when that is possible.
///
/// ```swift
/// let outbox = try Outbox(folder: "/var/lib/app/outbox", manager: central)
/// outbox.handle("order") { entry, result in print(entry.id, result) }
/// try await outbox.add(HTTPRequest("POST", "/orders", body: .json(order)), group: "shop-7", handler: "order")
/// try await SavePhotos(files: photos).enqueue(on: central, group: "shop-7", expires: .seconds(86_400))
/// ```
///
/// When ``add(_:group:supersedes:expires:priority:handler:files:)`` returns, the request is on the disk. From then on it is sent
/// until the server has answered, whatever happens to the process and the network: in order within its group, with the same
/// `Idempotency-Key` each time, and never again once an answer was recorded. Kept are the request as the caller made it, or the
/// row of the table and the parameters. Token, headers of the manager and address are those of the moment of sending.
///
/// Any number of processes may have an outbox on one folder. One of them sends for all, and another takes over when it ends. The
/// outbox sends while it is alive, so keep it; ``close()`` also waits for what is being sent.
public final class Outbox: Sendable {
    let engine: OutboxEngine

    /// Opens the outbox of a folder, and begins to send what it has.
    ///
    /// - Parameters:
    ///   - folder: The folder of the store and of the bodies, created if needed, for the owner only.
    ///   - manager: Sends the requests. Its ``CentralRequestManager/outbox`` is this one. Default
    ///     ``CentralRequestManager/shared``.
    ///   - configuration: Default ``Configuration/init()``.
    /// - Throws: ``NetworkError/Kind/storage`` if the folder cannot be used, ``NetworkError/Kind/invalidRequest`` for a negative
    ///   limit or wait.
    public convenience init(
        folder: String, manager: CentralRequestManager = .shared, configuration: Configuration = Configuration()
    ) throws {
        try self.init(folder: folder, manager: manager, configuration: configuration) { .now }
    }

    init(
        folder: String, manager: CentralRequestManager, configuration: Configuration = Configuration(),
        readClock: @escaping @Sendable () -> OutboxClock.Reading
    ) throws {
        guard configuration.limit >= 0, configuration.maxCount >= 0, configuration.maxSize >= 0,
            configuration.firstWait > .zero, configuration.longestWait >= configuration.firstWait,
            configuration.maxAttempts.map({ $0 > 0 }) ?? true
        else {
            throw NetworkError.invalidRequest(
                "the configuration of an outbox has a limit below 0, a wait of 0 or a longest wait below the first; "
                    + "correct it")
        }
        // The path stays the same when the process changes its current directory.
        let path = folder.hasPrefix("/") ? folder : FileManager.default.currentDirectoryPath + "/" + folder
        engine = try OutboxEngine(
            folder: path, central: manager, configuration: configuration, readClock: readClock)
        manager.attachedOutbox.value = self
        try engine.start()
    }

    package var folder: String { engine.folder }

    deinit { engine.perform { $0.close(nil) } }

    /// What was wrong with the store when it was opened, and where the damaged file is now; `nil` if nothing was. What could be
    /// read of it is in the outbox. Damage that is noticed later is a ``Change/trouble(_:)``.
    public var damage: NetworkError? { engine.damage }

    // MARK: Adding

    /// A request to add, with what the outbox needs to know of it.
    public struct Item: Sendable {
        enum Content: Sendable {
            case request(HTTPRequest)
            case entity(@Sendable () throws -> EntityPlan)
        }

        let content: Content
        /// Entries of one group are sent one after the other, in the order in which they were added. Default `nil`: no order.
        public var group: String?
        /// Replaces a waiting entry of the same group with the same key. One that is being sent stays. Default `nil`: none.
        public var supersedes: String?
        /// The time after which it becomes a dead letter if it was not sent. Default `nil`: never.
        public var expires: Duration?
        /// The priority among the entries that may be sent. Default `nil`: that of the request.
        public var priority: RequestPriority?
        /// The name of the handler of its answer. Default `nil`: none.
        public var handler: String?
        /// What happens to files of its body. Default ``FileKeeping/copied``.
        public var files = FileKeeping.copied

        /// An item of a request.
        public init(_ request: HTTPRequest) { content = .request(request) }

        /// An item of an entity, or of a call of one. It is read now.
        public init(_ entity: some EntityRequest) {
            let call = entity.call
            content = .entity { try call.plan() }
        }
    }

    /// Adds a request. It is on the disk when this returns.
    ///
    /// A request with an ``HTTPRequest/idempotencyKey`` of its own that is in the outbox already is not added again. If it is a
    /// dead letter, the error is ``Failure/deadLetter(id:)``.
    ///
    /// - Parameters:
    ///   - request: The request. Its URL may be a path, which is joined to the manager's base URL when it is sent. A stream is
    ///     read to its end, and kept as a file.
    ///   - group: See ``Item/group``.
    ///   - supersedes: See ``Item/supersedes``.
    ///   - expires: See ``Item/expires``.
    ///   - priority: See ``Item/priority``.
    ///   - handler: See ``Item/handler``.
    ///   - files: See ``Item/files``.
    /// - Returns: the number of the entry.
    /// - Throws: ``NetworkError/Kind/storage`` with an ``Failure`` when the outbox or the disk is full or a file cannot be
    ///   kept, or changes while it is copied; ``NetworkError/Kind/requestBody`` for a stream that does not have its announced
    ///   length; ``NetworkError/Kind/unsupported`` for a setting that cannot be kept; ``NetworkError/Kind/invalidRequest`` for
    ///   content that does not encode; ``NetworkError/Kind/shutDown`` after ``close()``. Nothing is added then.
    @discardableResult
    public func add(
        _ request: HTTPRequest, group: String? = nil, supersedes: String? = nil, expires: Duration? = nil,
        priority: RequestPriority? = nil, handler: String? = nil, files: FileKeeping = .copied
    ) async throws -> Entry.ID {
        var item = Item(request)
        (item.group, item.supersedes, item.expires) = (group, supersedes, expires)
        (item.priority, item.handler, item.files) = (priority, handler, files)
        return try await add([item])[0]
    }

    /// Adds requests with one commit: all of them, or none.
    ///
    /// - Returns: the numbers of the entries, in the same order.
    @discardableResult
    public func add(_ items: [Item]) async throws -> [Entry.ID] {
        var made: [BodyWriter] = []
        do {
            try OutboxStore.checkRoom(in: engine.folder, makingRoom: engine.makeRoom)
            let hold = try FolderHold(engine.folder, items.contains { $0.mayHaveFiles })
            var rows: [OutboxRow] = []
            rows.reserveCapacity(items.count)
            for item in items {
                var writer = BodyWriter(
                    folder: engine.folder, keeping: item.files, limit: engine.configuration.maxSize,
                    makingRoom: engine.makeRoom)
                do { rows.append(try await row(of: item, &writer)) } catch {
                    made.append(writer)
                    throw error
                }
                if !writer.files.isEmpty { made.append(writer) }
            }
            try made.first?.synchronize()
            let size = rows.reduce(0) { $0 + $1.request.count + $1.body.count }
            if size > BodyWriter.inlineLimit {
                try OutboxStore.checkRoom(in: engine.folder, for: size, makingRoom: engine.makeRoom)
            }
            let waiter = Waiter<[Entry.ID]>()
            engine.add(OutboxEngine.Adding(rows: rows) { result in waiter.end(result.mapError { $0 }) })
            defer { withExtendedLifetime(hold) {} }
            return try await waiter.uncancelledValue()
        } catch {
            for writer in made { writer.discard() }
            throw error
        }
    }

    private func row(of item: Item, _ writer: inout BodyWriter) async throws -> OutboxRow {
        var row = OutboxRow()
        var object: [String: JSONValue]
        var headers: HTTPHeaders
        let options: RequestOptions
        let body: HTTPBody?
        var secrets = central.configuration.secrets
        var secretInURL: String?
        switch item.content {
        case .request(var request):
            request.takeHeadersOfOptions()
            (headers, options) = (request.headers, request.options)
            let coding = options.coding.map { CodingRules.of($0) } ?? CodingRules.of(central.configuration.coding)
            body = coding.flatMap { rules in request.body?.coded(by: rules) } ?? request.body
            object = ["method": .string(request.method.rawValue), "url": .string(request.url)]
            row.target = Self.target(request.url)
        case .entity(let make):
            let plan = try make()
            (headers, options) = (plan.settings.headers, plan.settings)
            let kept = try central.kept(plan)
            object = kept.object ?? [:]
            secrets = central.secrets(of: plan)
            secretInURL = central.parameter(of: plan, in: secrets)
            body = central.coding(of: plan).flatMap { rules in plan.body?.coded(by: rules) } ?? plan.body
            var files: [JSONValue] = []
            for file in plan.content.files { files.append(try await writer.keep(file)) }
            if !files.isEmpty { object["files"] = .array(files) }
            let route = kept["route"]
            row.target =
                (route?["server"] ?? route?["domain"])?.string.map { "row:" + $0 }
                ?? Self.target(route?["url"]?.string ?? "")
        }
        try check(headers, secrets)
        let route = object["route"]
        try check(url: (object["url"] ?? route?["url"] ?? route?["path"])?.string ?? "", secrets, secretInURL)
        if let key = headers["Idempotency-Key"] {
            (row.key, row.hasOwnKey) = (key, true)
            headers.removeAll { name in name.lowercased() == "idempotency-key" }
        } else {
            row.key = HTTPRequest.randomIdempotencyKey()
        }
        object["headers"] = headers.kept()
        object["options"] = try options.kept()
        if let body { object["body"] = try await writer.keep(body) }
        if object["files"] != nil || object["body"]?["parts"] != nil {
            object["boundary"] = .string(HTTPRequest.randomIdempotencyKey())
        }
        row.request = try JSONValue.object(object).data(sortedKeys: false)
        row.body = writer.inline
        row.size = Int64(row.request.count + row.body.count) + writer.fileSize
        (row.group, row.supersedes, row.handler) = (item.group, item.supersedes, item.handler)
        row.expires = item.expires.map { max(0, $0.wholeMilliseconds) }
        row.priority = Int64((item.priority ?? options.priority ?? .normal).rawValue)
        return row
    }

    private func check(_ headers: HTTPHeaders, _ secrets: Secrets) throws(NetworkError) {
        guard !engine.configuration.keepsCredentials else { return }
        let secret = headers.fields.first { field in
            field.value != nil && secrets.contains(header: field.name)
        }
        guard let secret else { return }
        throw NetworkError(
            .unsupported,
            message: "the field \(secret.name) is a credential, and an outbox would write it to the disk; have an "
                + "authenticator or the header provider of the manager add it when the request is sent, or set "
                + "keepsCredentials")
    }

    /// - Parameter parameter: one that is added to the URL and is a credential; `nil` if none is.
    private func check(url: String, _ secrets: Secrets, _ parameter: String?) throws(NetworkError) {
        guard !engine.configuration.keepsCredentials else { return }
        let parts = URLParts(url)
        let names = (parts.query ?? "").split(separator: "&").map { String($0.prefix { $0 != "=" }) }
        let secret = names.first { secrets.contains(parameter: $0) } ?? parameter
        guard let part = secret.map({ "parameter \($0)" }) ?? parts.userInformation.map({ _ in "user" }) else { return }
        throw NetworkError(
            .unsupported,
            message: "the \(part) of the URL is a credential, and an outbox would write it to the disk; have an "
                + "authenticator or the row of the table add it when the request is sent, or set keepsCredentials")
    }

    /// What fails together when a server cannot be reached.
    private static func target(_ url: String) -> String { URLParts(url).origin ?? "base" }

    private var central: CentralRequestManager { engine.central }

    // MARK: Entries

    /// All entries, in the order in which they were added. An outbox may have very many;
    /// ``entries(_:after:limit:)`` returns some of them.
    public var entries: [Entry] {
        get async throws { try await entries(limit: .max) }
    }

    /// Entries in the order in which they were added.
    ///
    /// - Parameters:
    ///   - states: The states to look for. Default: all.
    ///   - number: Only entries with higher numbers, to go on after a page. Default 0.
    ///   - limit: The largest number of entries. Default 100.
    public func entries(
        _ states: Set<State> = Set(State.allCases), after number: Entry.ID = 0, limit: Int = 100
    ) async throws -> [Entry] {
        // The index of dead letters is used only where the condition says that there are no others.
        let isEnded = states.allSatisfy(\.isDead) ? " AND state > 1" : ""
        let list = states.map { "\($0.number)" }.sorted().joined(separator: ",")
        return try await engine.value { engine in
            try engine.reading { connection in
                try connection.entries("id > ?1\(isEnded) AND state IN (\(list)) ORDER BY id LIMIT ?2") { row in
                    row.bind(1, number)
                    row.bind(2, Int64(limit))
                }
            }.map { engine.entry($0) }
        }
    }

    /// An entry; `nil` if it was sent, dropped or never there.
    public func entry(_ id: Entry.ID) async throws -> Entry? {
        try await engine.value { engine in
            try engine.reading { try $0.entry(id) }.map { engine.entry($0) }
        }
    }

    /// The beginning of the response to an answered or refused entry, at most 64 KiB of its body and without secret fields;
    /// `nil` without a response.
    public func response(to id: Entry.ID) async throws -> HTTPResponse? {
        try await engine.value { engine in
            try engine.reading { connection in
                try connection.use("SELECT answer FROM entries WHERE id = ?") { row in
                    row.bind(1, id)
                    guard try row.step(), !row.isNull(0) else { return nil }
                    return OutboxEngine.response(row.data(0))
                }
            }
        }
    }

    /// The changes that this process makes, from now on. The sequence ends when the outbox is closed or released.
    /// A reader that is slow gets the newest 10,000.
    public var changes: AsyncStream<Change> { engine.hub.events() }

    /// The state in numbers.
    public var load: Load {
        get async throws { try await engine.value { try $0.load() } }
    }

    /// Returns when no entry waits, is being sent or has a handler that has not ended. Dead letters do not count.
    ///
    /// - Throws: `CancellationError` if the current task is cancelled; ``NetworkError/Kind/shutDown`` if the outbox is closed or
    ///   its manager shut down before.
    public func waitUntilSent() async throws { try await waitUntilSent(awaitsHandlers: true) }

    /// The same, or without regard to handlers, for a process that has none of them.
    package func waitUntilSent(awaitsHandlers: Bool) async throws {
        let waiter = Waiter<Void>()
        engine.perform { $0.notifyWhenEmpty(waiter, awaitsHandlers: awaitsHandlers) }
        try await waiter.value()
    }

    // MARK: Control

    /// Sets what is called with the results of the entries that name it. Set handlers at the start of the program: what was
    /// answered before a crash waits for them.
    ///
    /// The answer is recorded before the handler is called, and the entry is removed after it has returned. If the process dies
    /// in between, or the handler throws an error, it is called again, so it has to tolerate a repetition. The handlers of one
    /// name run one after the other. They are called in the process that sends. A failure is that of a dead letter; after
    /// ``retry(_:)->()`` the handler is called again.
    ///
    /// - Parameters:
    ///   - name: The name that entries give.
    ///   - handler: Gets the entry with the response, or with the reason for which it is a dead letter.
    public func handle(
        _ name: String,
        _ handler:
            @escaping @Sendable (_ entry: Entry, _ result: Result<HTTPResponse, NetworkError>) async throws -> Void
    ) {
        engine.perform { $0.setHandler(name, handler) }
    }

    /// Stops sending, and waits for the calls in flight, which are cancelled, and up to ten seconds for handlers that run. What
    /// was not sent stays in the folder, and another process may send it. Afterwards nothing can be added.
    ///
    /// A handler that calls it does not wait.
    public func close() async {
        guard OutboxEngine.handling != ObjectIdentifier(engine) else { return engine.perform { $0.close(nil) } }
        let waiter = Waiter<Void>()
        engine.perform { $0.close(waiter) }
        _ = try? await waiter.uncancelledValue()
    }

    static let closed = NetworkError(.shutDown, message: "the outbox was closed; open another on its folder")
}

/// The shared lock of the bodies of a folder while files are written that no entry has yet.
private final class FolderHold: Sendable {
    private let descriptor: Int32

    init(_ folder: String, _ isNeeded: Bool) throws(NetworkError) {
        guard isNeeded else {
            descriptor = -1
            return
        }
        descriptor = open(folder + "/bodies.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw NetworkError.outboxFile("opened", folder + "/bodies.lock", errno) }
        while flock(descriptor, LOCK_SH) != 0, errno == EINTR {}
    }

    deinit { if descriptor >= 0 { close(descriptor) } }
}
