import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform

/// What an outbox keeps of a request, as JSON: method and URL, or the route with its parameters; header fields and settings of
/// the caller; the body, apart from its bytes. What the table and the manager add is that of the moment of sending.
struct KeptRequest: Sendable {
    let json: JSONValue

    init(_ json: JSONValue) { self.json = json }

    init?(_ data: Data) {
        guard let json = try? JSONValue(parsing: data) else { return nil }
        self.json = json
    }

    /// The call that the JSON describes.
    enum Call: Sendable {
        case request(HTTPRequest)
        case entity(EntityPlan)
    }

    /// What is made of the JSON once for all entries that have the same.
    struct Prepared: Sendable {
        /// The files of the folder that belong to the entry.
        let files: [String]
        private let json: JSONValue
        private let options: RequestOptions
        private let headers: HTTPHeaders
        /// The request without its body, and the type of the body; `nil` for an entity, and for a body that is not in the row.
        private var plain: (request: HTTPRequest, type: String?)?

        init(_ kept: KeptRequest, _ priority: RequestPriority?) {
            json = kept.json
            files = kept.ownFiles
            var options = RequestOptions(kept: json["options"])
            // The outbox repeats the request itself, when it is due.
            options.retries = 0
            // Nobody waits for a fast response.
            options.hedge = .off
            options.waitsForConnectivity = false
            options.cachePolicy = .networkOnly
            options.duplicates = .allow
            // The name by which the inspector, HAR and traces show these calls.
            options.tag = options.tag ?? "outbox"
            options.priority = options.priority ?? priority
            self.options = options
            headers = HTTPHeaders(kept: json["headers"])
            let body = json["body"]?.object ?? [:]
            guard let method = json["method"]?.string, let url = json["url"]?.string, json["body"] != nil,
                body.keys.allSatisfy({ $0 == "type" })
            else { return }
            var request = HTTPRequest(method, url, headers: headers)
            request.options = options
            request.headers = headers
            plain = (request, body["type"]?.string)
        }

        /// Makes the call of an entry.
        ///
        /// - Parameter row: the entry, with the bytes of the body.
        /// - Throws: ``NetworkError/Kind/requestBody`` for a file that is gone.
        func call(_ row: OutboxRow, folder: String) throws(NetworkError) -> Call {
            let entry = RequestContext.KeptEntry(
                id: row.id, attempt: row.attempts + 1, boundary: json["boundary"]?.string)
            if let plain {
                var request = plain.request
                request.context.entry = entry
                request.headers["Idempotency-Key"] = row.key
                request.body = .data(row.body, contentType: plain.type)
                return .request(request)
            }
            var (options, headers) = (options, headers)
            headers["Idempotency-Key"] = row.key
            let bodies = KeptBody(row.body, folder: folder)
            let body = try json["body"].map { kept throws(NetworkError) in try bodies.body(kept) }
            if json["route"] != nil {
                options.headers = headers
                var files: [UploadFile] = []
                for part in json["files"]?.array ?? [] { files.append(try bodies.part(part)) }
                guard var plan = EntityPlan(kept: json, body: body, files: files, options: options) else {
                    throw KeptRequest.damaged
                }
                plan.entry = entry
                return .entity(plan)
            }
            guard let method = json["method"]?.string, let url = json["url"]?.string else { throw KeptRequest.damaged }
            var request = HTTPRequest(method, url, headers: headers, body: body)
            request.options = options
            request.context.entry = entry
            return .request(request)
        }
    }

    static let damaged = NetworkError(
        .storage, message: "the entry is damaged or of a later version of this package; drop it")

    /// The method; `nil` for that of the row.
    var method: String? { json["method"]?.string ?? json["route"]?["method"]?.string }

    /// The URL without its secrets, or the name of the row.
    var address: String {
        let route = json["route"]
        if let server = route?["server"]?.string { return server }
        if let domain = route?["domain"]?.string { return URLParts.join(domain, route?["path"]?.string ?? "") }
        return URLParts.redacted(json["url"]?.string ?? route?["url"]?.string ?? "")
    }

    var tag: String? { json["options"]?["tag"]?.string }

    /// The files of the folder that belong to the entry.
    var ownFiles: [String] {
        let body = json["body"]
        var names = [body?["file"]?.string].compactMap { $0 }
        for parts in [body?["parts"], json["files"]] { names += (parts?.array ?? []).compactMap { $0["file"]?.string } }
        return names
    }
}

/// Reads the bodies of an entry.
struct KeptBody {
    private let bytes: Data
    private let folder: String

    init(_ bytes: Data, folder: String) { (self.bytes, self.folder) = (bytes, folder) }

    func body(_ kept: JSONValue) throws(NetworkError) -> HTTPBody {
        let type = kept["type"]?.string
        if let encoding = kept["parameters"]?.string { return encoding == "form" ? .form : .json }
        if let parts = kept["parts"]?.array {
            var files: [UploadFile] = []
            for kept in parts { files.append(try part(kept)) }
            return .multipart(files)
        }
        guard let path = try path(kept) else { return .data(data(kept), contentType: type) }
        var body = HTTPBody.file(path)
        // That of the original's name, not of the copy's.
        body.contentType = type
        return body
    }

    func part(_ kept: JSONValue) throws(NetworkError) -> UploadFile {
        let name = kept["name"]?.string ?? ""
        var file =
            if let path = try path(kept) { UploadFile(name: name, path: path) } else {
                UploadFile(name: name, data: data(kept))
            }
        file.fileName = kept["fileName"]?.string
        file.contentType = kept["type"]?.string
        return file
    }

    private func data(_ kept: JSONValue) -> Data {
        guard let start = kept["at"]?.int, let count = kept["count"]?.int else { return bytes }
        return Data(bytes.dropFirst(start).prefix(count))
    }

    /// The file of a body; `nil` for one in the row.
    private func path(_ kept: JSONValue) throws(NetworkError) -> String? {
        let own = kept["file"]?.string
        guard let path = own.map({ "\(folder)/bodies/\($0)" }) ?? kept["path"]?.string else { return nil }
        guard access(path, R_OK) != 0 else { return path }
        let original = kept["from"]?.string ?? path
        throw NetworkError(
            .requestBody,
            message: "the file \(URLText.visible(original)) of the body cannot be read: \(SystemError().text)"
                + (own == nil ? "" : "; the copy in the outbox was removed")
                + "; drop the entry, or restore the file and retry")
    }
}

/// Writes the bodies of an entry: small ones into its row, large ones and files into files of the folder.
///
/// Whatever throws removes the files that were made before.
struct BodyWriter {
    private let folder: String
    private let keeping: Outbox.FileKeeping
    private let limit: Int64
    /// Makes room on a full disk.
    private let makeRoom: @Sendable () -> Void
    private(set) var inline = Data()
    private(set) var files: [String] = []
    /// The bytes in files of the folder.
    private(set) var fileSize: Int64 = 0
    /// Reads from a file, like `read`; tests replace it.
    var read: @Sendable (CInt, UnsafeMutableRawPointer?, Int) -> Int = { Glibc.read($0, $1, $2) }

    /// Larger bodies are files, so that waiting entries need little memory when they are read.
    static let inlineLimit = 64 << 10

    init(
        folder: String, keeping: Outbox.FileKeeping, limit: Int64, makingRoom makeRoom: @escaping @Sendable () -> Void
    ) {
        (self.folder, self.keeping, self.limit, self.makeRoom) = (folder + "/bodies", keeping, limit, makeRoom)
    }

    mutating func keep(_ body: HTTPBody) async throws -> JSONValue {
        var object: [String: JSONValue] = [:]
        object["type"] = body.contentType.map(JSONValue.string)
        switch body.content {
        case .parameters(let encoding): object["parameters"] = .string(encoding.rawValue)
        case .encoded(let encoder): try keep(encoder.encode(), &object)
        case .data(let data): try keep(data, &object)
        case .file(let path): try keep(file: path, &object)
        case .stream(let stream): try await keep(stream, &object)
        case .multipart(let parts):
            var kept: [JSONValue] = []
            for part in parts { kept.append(try await keep(part)) }
            object["parts"] = .array(kept)
        }
        return .object(object)
    }

    mutating func keep(_ part: UploadFile) async throws -> JSONValue {
        var object: [String: JSONValue] = ["name": .string(part.name)]
        object["fileName"] = part.fileName.map(JSONValue.string)
        object["type"] = part.contentType.map(JSONValue.string)
        switch part.source {
        case .data(let data): try keep(data, &object)
        case .path(let path): try keep(file: path, &object)
        case .stream(let stream): try await keep(stream, &object)
        }
        return .object(object)
    }

    private mutating func keep(_ data: Data, _ object: inout [String: JSONValue]) throws {
        guard data.count > Self.inlineLimit else {
            if !inline.isEmpty || object["name"] != nil {
                object["at"] = .int(Int64(inline.count))
                object["count"] = .int(Int64(data.count))
            }
            inline += data
            return
        }
        let descriptor = try newFile(&object)
        defer { close(descriptor) }
        try write(data, to: descriptor)
        try finish(descriptor)
    }

    private mutating func keep(_ stream: BodyStream, _ object: inout [String: JSONValue]) async throws {
        let descriptor = try newFile(&object)
        defer { close(descriptor) }
        let next = stream.makeIterator()
        var count: Int64 = 0
        // As for one that is sent at once, so that a part of it does not pass for the whole.
        while count <= stream.length ?? .max {
            guard let chunk = try await next() else { break }
            count += Int64(chunk.count)
            try write(chunk, to: descriptor)
        }
        if let length = stream.length, count != length { throw NetworkError.streamLength(count, of: length) }
        try finish(descriptor)
    }

    private mutating func keep(file path: String, _ object: inout [String: JSONValue]) throws {
        let source = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard source >= 0 else { throw NetworkError.outboxFile("read", path, errno) }
        defer { close(source) }
        var status = stat()
        guard fstat(source, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw NetworkError.outbox(
                .file(path: path), "\(URLText.visible(path)) is not a regular file; give the outbox its bytes instead")
        }
        object["from"] = .string(path)
        switch keeping {
        case .referenced:
            object["path"] = .string(path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path)
        case .linked:
            let name = HTTPRequest.randomIdempotencyKey()
            guard linkat(AT_FDCWD, path, AT_FDCWD, "\(folder)/\(name)", AT_SYMLINK_FOLLOW) == 0 else {
                guard errno == EXDEV else { throw NetworkError.outboxFile("linked", path, errno) }
                throw NetworkError.outbox(
                    .file(path: path),
                    "\(URLText.visible(path)) is on another file system than the outbox, so it cannot be linked; have it "
                        + "copied, or only referenced")
            }
            files.append(name)
            object["file"] = .string(name)
            guard fsync(source) == 0 else { throw NetworkError.outboxFile("synchronized", path, errno) }
            try count(Int64(status.st_size))
        case .copied:
            try count(Int64(status.st_size), isKept: false)
            let descriptor = try newFile(&object)
            defer { close(descriptor) }
            try copy(source, status, path, to: descriptor)
            try finish(descriptor)
        }
    }

    /// Copies a file. A copy that may have bytes of two versions is an error.
    ///
    /// - Parameter status: that of the file before.
    private mutating func copy(_ source: Int32, _ status: stat, _ path: String, to descriptor: Int32) throws {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        // A file of the kernel, as in `/proc`, has content although its size is 0.
        let size = status.st_size > 0 ? Int64(status.st_size) : nil
        var copied: Int64 = 0
        while copied <= size ?? .max {
            let count = read(source, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw NetworkError.outboxFile("read", path, errno) }
            if count == 0 { break }
            try write(buffer[..<count], to: descriptor)
            copied += Int64(count)
        }
        var after = stat()
        guard fstat(source, &after) == 0 else { throw NetworkError.outboxFile("read", path, errno) }
        guard copied == size ?? copied, after.st_size == status.st_size,
            (after.st_mtim.tv_sec, after.st_mtim.tv_nsec) == (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
        else {
            throw NetworkError.outbox(
                .file(path: path),
                "\(URLText.visible(path)) was written to while it was copied; add it again when it is complete")
        }
    }

    private mutating func newFile(_ object: inout [String: JSONValue]) throws -> Int32 {
        let name = HTTPRequest.randomIdempotencyKey()
        var descriptor: Int32 = -1
        _ = makingRoom {
            descriptor = open("\(folder)/\(name)", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            return descriptor < 0 ? errno : 0
        }
        guard descriptor >= 0 else { throw NetworkError.outboxFile("created", "\(folder)/\(name)", errno) }
        files.append(name)
        object["file"] = .string(name)
        return descriptor
    }

    private mutating func write(_ bytes: some ContiguousBytes, to descriptor: Int32) throws {
        let code = try bytes.withUnsafeBytes { bytes in
            try count(Int64(bytes.count))
            let start = lseek(descriptor, 0, SEEK_CUR)
            return makingRoom {
                let code = AtomicFile.writeAll(descriptor, bytes)
                // What was written of them may be the room that is needed to make more.
                if code != 0, ftruncate(descriptor, start) != 0 || lseek(descriptor, start, SEEK_SET) != start {
                    return errno
                }
                return code
            }
        }
        guard code == 0 else { throw NetworkError.outboxFile("written", folder, code) }
    }

    /// Tries again when the disk was full and there may be room now.
    ///
    /// - Parameter body: returns `errno`, or 0.
    private func makingRoom(_ body: () -> Int32) -> Int32 {
        let code = body()
        guard SystemError(code: code).isFull else { return code }
        makeRoom()
        return body()
    }

    private func finish(_ descriptor: Int32) throws {
        guard fsync(descriptor) == 0 else { throw NetworkError.outboxFile("synchronized", folder, errno) }
    }

    private mutating func count(_ bytes: Int64, isKept: Bool = true) throws {
        guard fileSize + bytes <= limit else {
            throw NetworkError.outbox(
                .tooLarge(limit: limit),
                "the body is larger than the \(limit) bytes that the outbox may hold; raise maxSize")
        }
        if isKept { fileSize += bytes }
    }

    /// Has the names of the files on the disk.
    func synchronize() throws(NetworkError) { if !files.isEmpty { try OutboxStore.synchronize(folder) } }

    /// Removes the files, because their entry was not added.
    func discard() { for name in files { unlink("\(folder)/\(name)") } }
}
