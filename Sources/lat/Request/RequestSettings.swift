import FoundationEssentials
import Glibc
import LATNetworking

/// An interceptor that applies the command's settings to each request, and shows the request when asked to.
struct RequestSettings: Interceptor {
    let command: RequestCommand
    /// Called with the request before it is sent on.
    let willSend: @Sendable (HTTPRequest) -> Void

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        // A body of any size is shown as it arrives and never held whole.
        request.streamsBody = true
        if let user = command.user { request.authentication = .basic(user: user.name, password: user.password) }
        // Over TLS, both sides negotiate the version.
        if command.usesHTTP2, !request.url.lowercased().hasPrefix("https:") { request.version = .http2PriorKnowledge }
        if let version = command.http3 { request.version = version }
        command.connection.apply(to: &request)
        willSend(request)
        return try await next(request)
    }

    /// Makes a manager with the command's settings.
    ///
    /// - Throws: ``NetworkError`` for invalid settings.
    static func manager(
        for command: RequestCommand, willSend: @escaping @Sendable (HTTPRequest) -> Void
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = nil
        if let connectTimeout = command.connectTimeout { configuration.connectTimeout = connectTimeout }
        if let proxy = command.proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        if let cache = command.cache { configuration.cachePolicy = cache }
        if !command.followsRedirects { configuration.redirects = .none }
        configuration.unixSocketPath = command.unixSocket
        command.connection.apply(to: &configuration)
        configuration.interceptors = [RequestSettings(command: command, willSend: willSend)]
        return try CentralRequestManager(configuration: configuration)
    }

    /// The default headers, set here so that ``RequestTrace`` can show them.
    static let headers: HTTPHeaders = ["User-Agent": "lat/\(CurlTransport.version)", "Accept": "*/*"]
}

/// The body of the request, read and checked before anything is sent.
struct RequestContent {
    let body: HTTPBody?
    let files: [UploadFile]

    /// - Throws: ``UsageError`` for a file that cannot be read, or has the wrong format.
    init(_ command: RequestCommand) throws(UsageError) {
        body = try command.content.map { content throws(UsageError) in try Self.body(content) }
        var files: [UploadFile] = []
        for file in command.files {
            try Self.checkReadable(file.path, of: RequestCommand.file)
            files.append(UploadFile(name: file.name, path: file.path))
        }
        self.files = files
    }

    private static func body(_ content: RequestCommand.Content) throws(UsageError) -> HTTPBody {
        switch content {
        case .form: return .form
        case .text(let text): return .text(text)
        case .input: return .data(try standardInput(of: RequestCommand.data))
        case .file(let path):
            try checkReadable(path, of: RequestCommand.data)
            return .file(path)
        case .jsonInput: return try json(try standardInput(of: RequestCommand.json), from: "standard input")
        case .jsonFile(let path):
            try checkReadable(path, of: RequestCommand.json)
            guard let data = FileManager.default.contents(atPath: path) else {
                throw UsageError("\(RequestCommand.json.name) \"\(path)\" cannot be read; check its permissions")
            }
            return try json(data, from: "\"\(path)\"")
        }
    }

    /// The bytes are sent unchanged after a check that they are JSON.
    private static func json(_ data: Data, from source: String) throws(UsageError) -> HTTPBody {
        do {
            _ = try JSONValue(parsing: data)
        } catch {
            throw UsageError(
                "\(RequestCommand.json.name) \(source) is not JSON: \(error); correct it, or send it unchanged with --data"
            )
        }
        return .data(data, contentType: "application/json")
    }

    static func checkReadable(_ path: String, of option: Option) throws(UsageError) {
        var status = stat()
        guard stat(path, &status) == 0, access(path, R_OK) == 0 else {
            let reason = String(cString: strerror(errno))
            throw UsageError("\(option.name) \"\(path)\" cannot be read (\(reason)); give the path of a file")
        }
        if status.st_mode & S_IFMT == S_IFDIR {
            throw UsageError("\(option.name) \"\(path)\" is a directory; give the path of a file")
        }
    }

    private static func standardInput(of option: Option) throws(UsageError) -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count == 0 { return data }
            if count > 0 {
                data.append(contentsOf: buffer[..<count])
            } else if errno != EINTR {
                let reason = String(cString: strerror(errno))
                throw UsageError("\(option.name) - cannot read standard input (\(reason)); give a file instead")
            }
        }
    }
}
