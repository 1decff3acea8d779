import FoundationEssentials
import Glibc
import HTTPCore
import LATNetworking
import Platform

/// Address, fields and body of the request, read and checked before anything is sent.
struct RequestContent {
    let url: String
    let headers: HTTPHeaders
    let body: HTTPBody?
    let files: [UploadFile]

    /// A member of the body.
    private struct Field {
        let name: String
        let value: JSONValue
        /// The JSON as it was written, in one line; `nil` for a text.
        var json: String?

        /// The value as a field of a form: a text as it is, anything else as JSON.
        var text: String { value.string ?? json ?? value.description }
    }

    /// - Parameter readsInput: Whether standard input is read now, if it is the body.
    /// - Throws: ``UsageError`` for a file that cannot be read, or has the wrong format.
    init(_ command: RequestCommand, readsInput: Bool = true) throws(UsageError) {
        var headers = command.headers
        var query: [String] = []
        var fields: [Field] = []
        var parts: [UploadFile] = []
        let isRead = !command.printsCurl && readsInput
        for item in command.line.items {
            switch item.kind {
            case .header:
                if item.value.isEmpty { headers[item.name] = nil } else { headers.append(item.name, item.value) }
            case .emptyHeader: headers.append(item.name, "")
            case .headerFile:
                let value = try Self.line(of: item)
                try HeaderArgument.check(item.name, value, in: "\"\(item.shown)\"")
                headers.append(item.name, value)
            case .query, .queryFile:
                let value = item.kind == .query ? item.value : try Self.line(of: item)
                query.append("\(item.name.percentEncodedComponent)=\(value.percentEncodedComponent)")
            case .text, .textFile, .json, .jsonFile:
                let field = try Self.field(of: item)
                fields.append(field)
                parts.append(UploadFile(name: field.name, value: field.text))
            case .file where item.name.isEmpty: break
            case .file: parts.append(try Self.upload(item, isRead))
            }
        }
        url = ParameterEncoder.appending(query: query.joined(separator: "&"), to: command.url)
        self.headers = headers
        for file in command.files {
            parts.append(try Self.upload(file.name, file.path, "\(RequestCommand.file.name) ", isRead))
        }
        let hasFiles = parts.count > fields.count
        files = hasFiles ? parts : []
        if hasFiles {
            body = nil
        } else if fields.isEmpty {
            body = try command.content.map { content throws(UsageError) in
                try Self.body(content, isRead: isRead)
            }
        } else {
            body = try command.isForm ? Self.form(fields) : Self.json(fields)
        }
    }

    // MARK: Items

    /// The value of a member of the body.
    static func value(of item: RequestItem) throws(UsageError) -> JSONValue { try field(of: item).value }

    private static func field(of item: RequestItem) throws(UsageError) -> Field {
        switch item.kind {
        case .json: return try json(Data(item.value.utf8), item)
        case .jsonFile: return try json(try contents(of: item.value, "\"\(item.shown)\": "), item)
        case .textFile: return Field(name: item.name, value: .string(try text(of: item)))
        default: return Field(name: item.name, value: .string(item.value))
        }
    }

    private static func json(_ data: Data, _ item: RequestItem) throws(UsageError) -> Field {
        do {
            let value = try JSONValue(parsing: data)
            return Field(name: item.name, value: value, json: JSONText(data).map { $0.compact($0.whole) })
        } catch {
            let hint = item.kind == .json ? "\(item.name)=\(item.value)" : "\(item.name)=@\(item.value)"
            throw UsageError(
                "\"\(item.shown)\" is not JSON (\(error)); correct it, or write \(SafeText.line(hint)) for text")
        }
    }

    private static func text(of item: RequestItem) throws(UsageError) -> String {
        let data = try contents(of: item.value, "\"\(item.shown)\": ")
        guard let text = String(validating: data, as: UTF8.self) else {
            throw UsageError(
                "\"\(item.shown)\": the file is not UTF-8 text; write \(item.name)@\(item.value) to upload it")
        }
        return text
    }

    /// The text of a file without its last line end.
    private static func line(of item: RequestItem) throws(UsageError) -> String {
        let text = try text(of: item)
        return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    /// A file with what may follow its path: `;type=image/png`, `;filename=a.png`.
    private static func upload(_ item: RequestItem, _ isRead: Bool) throws(UsageError) -> UploadFile {
        var path = item.value[...]
        var (type, name): (String?, String?)
        while let mark = path.lastIndex(of: ";") {
            let setting = path[path.index(after: mark)...]
            if setting.hasPrefix("type=") {
                type = String(setting.dropFirst(5))
            } else if setting.hasPrefix("filename=") {
                name = String(setting.dropFirst(9))
            } else {
                break
            }
            path = path[..<mark]
        }
        return try upload(item.name, String(path), "\"\(item.shown)\": ", isRead, named: name, type)
    }

    /// - Parameter isRead: Whether a pipe is read now: it can be read only once, and the body may be sent again.
    private static func upload(
        _ name: String, _ path: String, _ place: String, _ isRead: Bool, named fileName: String? = nil,
        _ type: String? = nil
    ) throws(UsageError) -> UploadFile {
        let file = UploadFile(name: name, fileName: fileName, path: path, contentType: type)
        guard try checkReadable(path, place) == S_IFIFO, isRead else { return file }
        return UploadFile(
            name: name, fileName: file.fileName, data: try contents(of: path, place), contentType: type)
    }

    private static func json(_ fields: [Field]) throws(UsageError) -> HTTPBody {
        var document = NestedFields()
        // JSON is sent as it was written, so a mark stands for it until the document is text. Members can be added to a value
        // only.
        let mark = UUID().uuidString
        for (index, field) in fields.enumerated() {
            let isWhole = field.json != nil && !fields.contains { $0.name.hasPrefix("\(field.name)[") }
            try document.add(field.name, isWhole ? .string("\(mark).\(index)") : field.value)
        }
        do {
            var text = String(decoding: try (document.value ?? [:]).data(), as: UTF8.self)
            for (index, field) in fields.enumerated() {
                if let json = field.json { text = text.replacing("\"\(mark).\(index)\"", with: json) }
            }
            return .data(Data(text.utf8), contentType: "application/json")
        } catch {
            throw UsageError("the items do not make a JSON document: \(error)")
        }
    }

    private static func form(_ fields: [Field]) -> HTTPBody {
        let pairs = fields.map { "\($0.name.percentEncodedComponent)=\($0.text.percentEncodedComponent)" }
        return .data(
            Data(pairs.joined(separator: "&").utf8), contentType: "application/x-www-form-urlencoded")
    }

    // MARK: Whole bodies

    /// - Parameter isRead: Whether the body holds the bytes of standard input or of a JSON file. Otherwise it only names
    ///   the file, or `-` for standard input.
    private static func body(_ content: RequestCommand.Content, isRead: Bool) throws(UsageError) -> HTTPBody {
        let type = "application/json"
        switch content {
        case .form: return .form
        case .text(let text): return .text(text)
        case .input:
            guard isRead else { return .file("-") }
            return whole(try standardInput(of: "@-"))
        case .file(let path):
            guard try checkReadable(path, "the body ") == S_IFIFO, isRead else { return .file(path) }
            return whole(try contents(of: path, "the body "))
        case .jsonInput:
            guard isRead else { return .file("-", contentType: type) }
            return try json(try standardInput(of: RequestCommand.json.name), from: "standard input")
        case .jsonText(let text): return try json(Data(text.utf8), from: SafeText.line(text))
        case .jsonFile(let path):
            let data = try contents(of: path, "\(RequestCommand.json.name) ")
            let body = try json(data, from: "\"\(path)\"")
            return isRead ? body : .file(path, contentType: type)
        }
    }

    /// A body that was read. What begins like a JSON document and is one, has the type of one.
    private static func whole(_ data: Data) -> HTTPBody {
        let isJSON =
            (data.first == UInt8(ascii: "{") || data.first == UInt8(ascii: "["))
            && (try? JSONValue(parsing: data)) != nil
        return .data(data, contentType: isJSON ? "application/json" : nil)
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

    // MARK: Files

    /// The bytes of a file or a pipe.
    ///
    /// - Parameter place: The argument that names the file, with a space at its end.
    static func contents(of path: String, _ place: String) throws(UsageError) -> Data {
        try checkReadable(path, place)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        guard descriptor >= 0, let data = bytes(of: descriptor) else {
            let reason = SystemError().text
            throw UsageError("\(place)\"\(SafeText.line(path))\" cannot be read (\(reason)); check its permissions")
        }
        return data
    }

    /// - Parameter place: The argument that names the file, with a space at its end.
    /// - Returns: The type of the file, such as `S_IFREG`.
    @discardableResult static func checkReadable(_ path: String, _ place: String) throws(UsageError) -> mode_t {
        var status = stat()
        let shown = SafeText.line(path)
        guard stat(path, &status) == 0, access(path, R_OK) == 0 else {
            let reason = SystemError().text
            throw UsageError("\(place)\"\(shown)\" cannot be read (\(reason)); give the path of a file")
        }
        if status.st_mode & S_IFMT == S_IFDIR {
            throw UsageError("\(place)\"\(shown)\" is a directory; give the path of a file")
        }
        return status.st_mode & S_IFMT
    }

    /// Checks that a file can be sent from its path: not a folder, a pipe or a device.
    static func checkSendable(_ path: String, _ place: String) throws(UsageError) {
        try checkReadable(path, place)
        do {
            _ = try UploadedFile.size(of: path)
        } catch {
            throw UsageError("\(place)\(SafeText.line(ErrorWords().message(of: error)))")
        }
    }

    private static func standardInput(of name: String) throws(UsageError) -> Data {
        guard let data = bytes(of: STDIN_FILENO) else {
            let reason = SystemError().text
            throw UsageError("\(name) cannot read standard input (\(reason)); give a file instead")
        }
        return data
    }

    /// The bytes up to the end; `nil` after an error, which `errno` has.
    private static func bytes(of descriptor: Int32) -> Data? {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count == 0 { return data }
            if count > 0 {
                data.append(contentsOf: buffer[..<count])
            } else if errno != EINTR {
                return nil
            }
        }
    }
}
