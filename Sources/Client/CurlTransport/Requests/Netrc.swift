import FoundationEssentials
import Glibc
internal import HTTPCore

/// User names and passwords of hosts from a file in the `.netrc` format: `machine` with `login` and `password`, and
/// `default` for all other hosts. Macros (`macdef`, up to an empty line) and comments (`#`, up to the line's end) are skipped.
struct Netrc: Sendable, Hashable {
    private struct Entry: Hashable {
        /// As it is written; `nil` for the entry that matches all hosts.
        var host: String?
        var login: String?
        var password: String?

        var authentication: Authentication { .basic(user: login ?? "", password: password ?? "") }
    }

    private let entries: [Entry]

    /// Reads the file of a policy; `nil` when there is none to read.
    init?(_ policy: EngineConfiguration.NetrcPolicy) throws(NetworkError) {
        let path: String
        switch policy {
        case .off: return nil
        case .file(let file): path = file
        case .home:
            guard let home = getenv("HOME").map({ String(cString: $0) }), !home.isEmpty else { return nil }
            path = home + "/.netrc"
            if access(path, F_OK) != 0 { return nil }
        }
        let data: Data
        do {
            data = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw NetworkError(
                .invalidRequest,
                message:
                    "netrc: the file \"\(path)\" cannot be read (\(NetworkError.reason(of: error))); name another, "
                    + "or set .off",
                underlying: error)
        }
        guard let text = String(data: data, encoding: .utf8), !text.utf8.contains(0) else {
            throw .invalidRequest("netrc: the file \"\(path)\" is not UTF-8 text; convert it")
        }
        do {
            try self.init(text)
        } catch {
            throw .invalidRequest("netrc: \"\(path)\", line \(error.line): \(error.reason)")
        }
    }

    struct Fault: Error {
        let line: Int
        let reason: String
    }

    init(_ text: String) throws(Fault) {
        var reader = Reader(text)
        var entries: [Entry] = []
        while let (word, line) = try reader.next() {
            switch word {
            case "machine": entries.append(Entry(host: try reader.value(of: word, line)))
            case "default": entries.append(Entry())
            case "login", "password", "account":
                let value = try reader.value(of: word, line)
                guard !entries.isEmpty else { throw Fault(line: line, reason: "\(word) comes before any machine") }
                if word == "login" { entries[entries.count - 1].login = value }
                if word == "password" { entries[entries.count - 1].password = value }
            case "macdef":
                _ = try reader.value(of: word, line)
                reader.skipMacro()
            default:
                // The message does not quote the word, which may be a password without its keyword.
                throw Fault(
                    line: line, reason: "expected machine, default, login, password, account or macdef")
            }
        }
        self.entries = entries
    }

    /// Returns the credentials of a host, from the first entry that names it or else from the `default`.
    ///
    /// - Parameters:
    ///   - host: The host as in a URL; an IPv6 address in brackets.
    ///   - user: The user that the URL names. Then only an entry that names this user and the host counts.
    ///   - isNamed: Whether only an entry that names the host counts.
    func credentials(forHost host: String, user: String? = nil, isNamed: Bool = false) -> Authentication? {
        let name = host.lowercased()
        let bare = name.hasPrefix("[") ? String(name.dropFirst().dropLast()) : name
        let own = entries.filter { entry in entry.host.map { [name, bare].contains($0.lowercased()) } ?? false }
        if let user { return own.first { $0.login == user }?.authentication }
        let named = own.first
        guard let entry = named ?? (isNamed ? nil : entries.first { $0.host == nil }),
            entry.login != nil || entry.password != nil
        else { return nil }
        return entry.authentication
    }

    /// All sockets have the host `localhost`, so neither its entry nor the `default` says which of them is meant: only one that
    /// names the socket counts, such as `machine unix:/run/app.sock`.
    private func credentials(for request: HTTPRequest, _ target: Target) -> Authentication? {
        guard let socket = target.socketName(of: request) else {
            return credentials(forHost: target.host, user: target.user, isNamed: request.context.hasLeftOrigin)
        }
        return entries.first { $0.host == socket && ($0.login != nil || $0.password != nil) }?.authentication
    }

    /// Returns the request with the file's credentials, unless it has credentials of its own. A server that redirects to
    /// another origin must not choose who receives the `default` ones, nor which of a host's users is meant.
    func authenticated(_ request: HTTPRequest, _ target: Target) -> HTTPRequest {
        guard request.authentication == nil, !target.hasPassword, !target.hasUser || !request.context.hasLeftOrigin,
            !request.headers.fields.contains(where: { $0.name.equalsIgnoringASCIICase("Authorization") }),
            let credentials = credentials(for: request, target)
        else { return request }
        var request = request
        request.authentication = credentials
        return request
    }

    /// Splits the text into words.
    private struct Reader {
        private var rest: Substring
        private var line = 1

        init(_ text: String) { rest = text[...] }

        /// Returns the next word with its line; `nil` at the end.
        mutating func next() throws(Fault) -> (String, Int)? {
            while let first = rest.first {
                if first == "#" {
                    rest = rest.drop { !$0.isNewline }
                } else if first.isWhitespace {
                    advance()
                } else {
                    return first == "\"" ? try quoted() : plain()
                }
            }
            return nil
        }

        /// Returns the word after a keyword. On the same line, `#` does not begin a comment: passwords may begin with it.
        mutating func value(of word: String, _ line: Int) throws(Fault) -> String {
            rest = rest.drop { $0.isWhitespace && !$0.isNewline }
            if rest.first == "#" { return plain().0 }
            guard let (value, _) = try next() else { throw Fault(line: line, reason: "\(word) has no value") }
            return value
        }

        /// Skips the lines of a macro, up to the first empty one.
        mutating func skipMacro() {
            rest = rest.drop { !$0.isNewline }
            while !rest.isEmpty {
                advance()
                if rest.first?.isNewline == true { return }
                rest = rest.drop { !$0.isNewline }
            }
        }

        private mutating func plain() -> (String, Int) {
            let word = rest.prefix { !$0.isWhitespace }
            rest = rest[word.endIndex...]
            return (String(word), line)
        }

        /// Reads a quoted word. Escapes (`\n`, `\r`, `\t`, `\\`, `\"`) have the same meaning as in C.
        private mutating func quoted() throws(Fault) -> (String, Int) {
            let start = line
            var word = ""
            rest.removeFirst()
            while let character = rest.popFirst(), !character.isNewline {
                if character == "\"" { return (word, start) }
                guard character == "\\", let escaped = rest.popFirst() else {
                    word.append(character)
                    continue
                }
                switch escaped {
                case "n": word.append("\n")
                case "r": word.append("\r")
                case "t": word.append("\t")
                default: word.append(escaped)
                }
            }
            throw Fault(line: start, reason: "a quotation mark is not closed")
        }

        private mutating func advance() {
            if rest.removeFirst().isNewline { line += 1 }
        }
    }
}
