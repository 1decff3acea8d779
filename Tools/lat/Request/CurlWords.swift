import FoundationEssentials
import LATNetworking

/// Answers a command line of curl with that of lat: a pure function.
///
/// Several options have the same name in both programs. They are rewritten too, because in a line with words of curl they mean
/// what curl means: `-d a=b` is a form there.
struct CurlWords {
    /// What an option of curl means for lat.
    private enum Meaning {
        /// lat does so without an option, or has no use for it.
        case omitted(_ why: String)
        /// The same option in lat, with this name.
        case option(String)
        case method, head, query, upload, cookie, part, certificate
        case redirects
        /// A text, or a file after `@`, of which `-d` removes the line ends.
        case data
        case binaryData
        /// A text, also one that begins with `@`.
        case rawData
        /// `name=value`, to be encoded.
        case encodedData
        case header
        /// A header field with this name.
        case field(String)
        case url

        /// Whether it is `-d`, which sends a file as text.
        var isText: Bool { if case .data = self { true } else { false } }
        /// Whether a value after `@` is a file.
        var namesFile: Bool { if case .binaryData = self { true } else { isText } }
    }

    private struct Word {
        let letter: Character?
        let names: [String]
        let takesValue: Bool
        let meaning: Meaning

        /// - Parameter names: The long names, with blanks between them.
        init(_ letter: Character?, _ names: String, value: Bool = true, _ meaning: Meaning) {
            self.letter = letter
            self.names = names.split(separator: " ").map(String.init)
            takesValue = value
            self.meaning = meaning
        }
    }

    private static let words = [
        Word("X", "request", .method), Word("I", "head", value: false, .head), Word("G", "get", value: false, .query),
        Word("L", "location location-trusted", value: false, .redirects),
        Word("s", "silent", value: false, .omitted("shows nothing but the response")),
        Word("S", "show-error", value: false, .omitted("shows errors")),
        Word("f", "fail fail-with-body", value: false, .omitted("ends with 1 for a status that is no success")),
        Word("g", "globoff", value: false, .omitted("sends brackets as they are")),
        Word("N", "no-buffer", value: false, .omitted("writes what arrives at once")),
        Word(nil, "compressed", value: false, .omitted("asks for compressed responses")),
        Word("d", "data data-ascii", .data), Word(nil, "data-binary", .binaryData), Word(nil, "data-raw", .rawData),
        Word(nil, "data-urlencode", .encodedData), Word(nil, "json", .option("--json")),
        Word("F", "form", .part), Word(nil, "form-string", .part), Word("T", "upload-file", .upload),
        Word("H", "header", .header), Word("A", "user-agent", .field("User-Agent")),
        Word("e", "referer", .field("Referer")), Word("b", "cookie", .cookie),
        Word("c", "cookie-jar", .option("-b")), Word("u", "user", .option("-u")),
        Word(nil, "oauth2-bearer", .option("--bearer")), Word(nil, "digest", value: false, .option("--digest")),
        Word(nil, "basic", value: false, .omitted("sends -u by Basic")),
        Word("k", "insecure", value: false, .option("-k")), Word(nil, "cacert", .option("--ca")),
        Word("E", "cert", .certificate), Word(nil, "key", .option("--key")),
        Word(nil, "pass", .option("--key-password")), Word(nil, "pinnedpubkey", .option("--pin")),
        Word("o", "output", .option("-o")), Word("O", "remote-name", value: false, .option("-O")),
        Word("J", "remote-header-name", value: false, .omitted("takes the name that the server gives")),
        Word("i", "include show-headers", value: false, .option("-i")),
        Word("v", "verbose", value: false, .option("-v")),
        Word("m", "max-time", .option("-m")), Word(nil, "connect-timeout", .option("--connect-timeout")),
        Word(nil, "max-redirs", .option("--max-redirects")), Word(nil, "retry", .option("--retry")),
        Word("x", "proxy", .option("-x")), Word(nil, "resolve", .option("--resolve")),
        Word(nil, "connect-to", .option("--connect-to")), Word(nil, "unix-socket", .option("--unix-socket")),
        Word(nil, "interface", .option("--interface")), Word(nil, "limit-rate", .option("--limit-rate")),
        Word("n", "netrc", value: false, .option("--netrc")), Word(nil, "netrc-file", .option("--netrc-file")),
        Word(nil, "http2 http2-prior-knowledge", value: false, .option("--http2")),
        Word(nil, "http3", value: false, .option("--http3")), Word(nil, "url", .url),
    ]

    /// The options that made this a line of curl, as they were written.
    private var foreign: [String] = []
    private var reasons: [String] = []
    private var method: String?
    private var isQuery = false
    private var data: [(text: String, meaning: Meaning)] = []
    private var headers: [String] = []
    private var items: [String] = []
    private var options: [String] = []
    private var urls: [String] = []
    private var followsRedirects = false
    private var hasParts = false
    private var hasUpload = false
    private var hasFilePart = false
    private var hasOtherPart = false
    /// Whether an option that lat takes once is given with two values that both count for curl.
    private var hasTwoValues = false

    /// The command line of lat that does the same, and why; `nil` for a line without words of curl, and for one that cannot
    /// be translated.
    ///
    /// - Parameter arguments: the arguments of lat.
    static func answer(to arguments: [String]) -> String? {
        var line = CurlWords()
        guard line.read(arguments), !line.foreign.isEmpty, line.urls.count == 1 else { return nil }
        if !line.followsRedirects { line.reasons.append("follows redirects, unless --no-follow is given") }
        if line.data.contains(where: { $0.text.hasPrefix("@") && $0.meaning.isText }) {
            line.reasons.append("sends the line ends of a file, too")
        }
        let names = line.foreign.reduce(into: [String]()) { if !$0.contains($1) { $0.append($1) } }
        let why = line.reasons.isEmpty ? "" : " (lat \(line.reasons.listed))"
        let verb = names.count == 1 ? "is a word" : "are words"
        guard line.isExact else {
            return
                "\(names.listed) \(verb) of curl, and this line has no exact counterpart; lat help request says what lat has"
        }
        return "\(names.listed) \(verb) of curl\(why); write \(line.rewritten())"
    }

    /// Whether the line of lat sends the same. A part of a form is a file, a text after `@` names one, and what curl joins or
    /// encodes in its own way is left to the reader.
    private var isExact: Bool {
        let isFile = { (text: String) in text.hasPrefix("@") }
        let isPlain = data.allSatisfy { text, meaning in
            switch meaning {
            case .rawData: !isFile(text)
            case .encodedData:
                text.firstIndex(of: "=").map { $0 > text.startIndex && !text[..<$0].contains("@") } ?? false
            default: true
            }
        }
        let joinsFiles = data.count > 1 && data.contains { isFile($0.text) }
        let putsIntoFolder = hasUpload && urls.contains { $0.hasSuffix("/") }
        return isPlain && !joinsFiles && !putsIntoFolder && !(isQuery && data.contains { isFile($0.text) })
            // Without a file, lat sends no multipart body.
            && !hasTwoValues && !hasOtherPart && (hasFilePart || hasUpload || !hasParts)
    }

    /// Reads a line as curl does. Returns `false` for an option that curl does not have.
    private mutating func read(_ arguments: [String]) -> Bool {
        let own = ArgumentParser(options: RequestCommand.options)
        var rest = arguments[...]
        if rest.first == RequestCommand.name { rest.removeFirst() }
        while let argument = rest.popFirst() {
            guard argument.hasPrefix("-"), argument.count > 1 else {
                urls.isEmpty || URLParts(argument).isAbsolute ? addOperand(argument) : items.append(argument)
                continue
            }
            guard argument != "--" else { return false }
            if argument.hasPrefix("--") {
                let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard let word = Self.words.first(where: { $0.names.contains(String(parts[0])) }) else { return false }
                let isForeign = !own.knows("--\(parts[0])")
                guard take(word, "--\(parts[0])", parts.count > 1 ? String(parts[1]) : nil, isForeign, &rest) else {
                    return false
                }
                continue
            }
            var letters = argument.dropFirst()
            while let letter = letters.popFirst() {
                guard let word = Self.words.first(where: { $0.letter == letter }) else { return false }
                // The rest of the argument is the value.
                let value = word.takesValue && !letters.isEmpty ? String(letters) : nil
                if word.takesValue { letters = "" }
                guard take(word, "-\(letter)", value, !own.knows("-\(letter)"), &rest) else { return false }
            }
        }
        return true
    }

    /// A word before the URL that is a method of lat.
    private mutating func addOperand(_ word: String) {
        if urls.isEmpty, method == nil, RequestLine.begins(with: word), !URLArgument.isURL(word) {
            method = word
        } else {
            urls.append(word)
        }
    }

    /// - Returns: `false` when the value is missing.
    private mutating func take(
        _ word: Word, _ name: String, _ given: String?, _ isForeign: Bool, _ rest: inout ArraySlice<String>
    ) -> Bool {
        var value = given ?? ""
        if word.takesValue, given == nil {
            guard let next = rest.popFirst() else { return false }
            value = next
        }
        var isForeign = isForeign
        switch word.meaning {
        case .omitted(let why): if isForeign, !reasons.contains(why) { reasons.append(why) }
        case .option(let own): add(own, word.takesValue ? value : nil)
        case .method: method = value
        case .head: method = method ?? "HEAD"
        case .query: isQuery = true
        case .upload:
            method = method ?? "PUT"
            items.append("@\(value)")
            (hasParts, hasUpload) = (true, true)
        case .redirects:
            followsRedirects = true
            if isForeign, !reasons.contains("follows redirects") { reasons.append("follows redirects") }
        case .certificate:
            // A password follows the first colon without a backslash before it.
            let colon =
                value.hasPrefix("pkcs11:")
                ? nil : value.indices.first { value[$0] == ":" && !value[..<$0].hasSuffix("\\") }
            let path = String(value[..<(colon ?? value.endIndex)]).replacing("\\:", with: ":")
            options += ["--cert", path.shellWord]
            if let colon {
                options += ["--key-password", String(value[value.index(after: colon)...]).shellWord]
                isForeign = true
            }
        case .data, .binaryData, .rawData, .encodedData: data.append((value, word.meaning))
        case .part:
            items.append(Self.part(value))
            hasParts = true
            let isOther = value.contains("=<") || value.prefix { $0 != "=" }.contains(":")
            if isOther { hasOtherPart = true } else { hasFilePart = hasFilePart || value.contains("=@") }
            isForeign = isForeign || value.contains("=@") || value.contains("=<")
        case .header: headers.append(value)
        case .field(let field): headers.append("\(field): \(value)")
        case .cookie:
            // curl reads a file unless the value has an equals sign.
            if value.contains("=") {
                headers.append("Cookie: \(value)")
                isForeign = true
            } else {
                add("-b", value)
            }
        case .url: urls.append(value)
        }
        if isForeign { foreign.append(name) }
        return true
    }

    /// Adds an option. Of several values of an option that lat takes once, the last one counts, as in curl; but curl joins JSON,
    /// and may read one cookie jar and write another.
    private mutating func add(_ name: String, _ value: String?) {
        guard let value = value?.shellWord else { return options.append(name) }
        let repeats = RequestCommand.options.first { $0.isNamed(name) }?.repeats ?? false
        if !repeats, let index = options.firstIndex(of: name) {
            if name == "--json" || name == "-b" && options[index + 1] != value { hasTwoValues = true }
            options.removeSubrange(index...index + 1)
        }
        options += [name, value]
    }

    /// A part of a form: `img=@a.png` of curl is `img@a.png`.
    private static func part(_ value: String) -> String {
        for (mark, own) in [("=@", "@"), ("=<", "=@")] {
            if let range = value.firstRange(of: mark) {
                return value[..<range.lowerBound] + own + value[range.upperBound...]
            }
        }
        return value
    }

    /// Whether a text is a form as curl sends it, such as `name=Ada&age=36`.
    static func isForm(_ text: String) -> Bool { pairs((text, .data)) != nil }

    // MARK: The line of lat

    private func rewritten() -> String {
        var words = ["lat"]
        var (items, options, headers) = (items, options, headers)
        let type = headers.firstIndex { $0.lowercased().hasPrefix("content-type:") }
        let isJSON = type.map { headers[$0].lowercased().contains("json") } ?? false
        let text = data.map(\.text).joined(separator: "&")
        if isQuery {
            for (name, value) in data.flatMap({ Self.pairs($0) ?? [($0.text, "")] }) {
                items.append("\(name)==\(value)")
            }
        } else if data.count == 1, data[0].text.hasPrefix("@"), data[0].meaning.namesFile {
            items.append(data[0].text)
            if type == nil { headers.append("Content-Type: application/x-www-form-urlencoded") }
        } else if !data.isEmpty {
            let pairs = data.map { Self.pairs($0) }
            if isJSON, let type, (try? JSONValue(parsing: text)) != nil, text.hasPrefix("{") || text.hasPrefix("[") {
                headers.remove(at: type)
                items.append(text)
            } else if type == nil, pairs.allSatisfy({ $0 != nil }) {
                options.append("-f")
                items += pairs.flatMap { $0 ?? [] }.map { "\($0.name)=\($0.value)" }
            } else {
                options += ["-d", text.shellWord]
                if type == nil { headers.append("Content-Type: application/x-www-form-urlencoded") }
            }
        }
        // lat chooses the other method by itself.
        let standard = hasParts || !data.isEmpty && !isQuery ? "POST" : "GET"
        if let method, method.uppercased() != standard { words.append(method.shellWord) }
        words.append((urls.first ?? "").shellWord)
        words += items.map(\.shellWord)
        words += headers.map { Self.item(of: $0) }
        return (words + options).joined(separator: " ")
    }

    /// The fields of a form that can be written as items; `nil` when one cannot.
    private static func pairs(_ data: (text: String, meaning: Meaning)) -> [(name: String, value: String)]? {
        if case .encodedData = data.meaning {
            let parts = data.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return parts.count == 2 && isName(parts[0]) ? [(String(parts[0]), String(parts[1]))] : nil
        }
        let items = data.text.split(separator: "&").map { item -> (name: String, value: String)? in
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, isName(parts[0]), !parts[1].hasPrefix("="), !parts[1].hasPrefix("@") else {
                return nil
            }
            return (parts[0].percentDecoded(plusIsSpace: true), parts[1].percentDecoded(plusIsSpace: true))
        }
        return items.isEmpty || items.contains { $0 == nil } ? nil : items.compactMap { $0 }
    }

    /// Whether a name has no character that means something in an item.
    private static func isName(_ name: Substring) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy { !":;=@\\[]{}\" ".utf8.contains($0) } && !name.hasPrefix("-")
    }

    /// A header field as an item where that is plain, else with `-H`.
    private static func item(of header: String) -> String {
        guard let colon = header.firstIndex(of: ":") else { return "-H \(header.shellWord)" }
        let value = header[header.index(after: colon)...].drop { $0 == " " }
        guard !value.hasPrefix("@"), !value.hasPrefix("="), !value.hasPrefix("//") else {
            return "-H \(header.shellWord)"
        }
        return "\(header[..<colon]):\(value)".shellWord
    }
}

extension String {
    /// The text as one word of a shell, without quotes where none are needed.
    var shellWord: String {
        let plain = "/:.,=@%+-_~".utf8
        let isPlain = utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || plain.contains(byte)
        }
        // An unquoted ~ at the beginning, and = in zsh, mean something.
        return isPlain && !isEmpty && first != "~" && first != "=" ? self : shellQuoted
    }
}
