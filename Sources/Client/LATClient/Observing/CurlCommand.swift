import FoundationEssentials
import HTTPCore

/// A request as a curl command for a shell.
package struct CurlCommand: Sendable {
    package enum Purpose: Sendable {
        /// To be read in a log, in one line: of a request whose secrets were removed, and whose body is a text to show.
        case log
        /// To be run: curl sends the same request.
        case run
    }

    private let purpose: Purpose

    package init(_ purpose: Purpose) { self.purpose = purpose }

    /// - Parameter options: More options, each with its value if it has one. The values are quoted here.
    package func text(of request: HTTPRequest, options: [(name: String, value: String?)] = []) -> String {
        var words = ["curl"]
        if request.method == .head {
            words.append("--head")
        } else if namesMethod(of: request) {
            let method = request.method.rawValue
            words += ["-X", method.isShellWord ? method : quoted(method)]
        }
        for option in options { words += [option.name] + (option.value.map { [quoted($0)] } ?? []) }
        for (name, value) in request.headers {
            // curl removes a field without a value, but sends an empty one for a name that ends with a semicolon.
            words += ["-H", quoted(value.isEmpty ? "\(name);" : "\(name): \(value)")]
        }
        if case .run = purpose {
            // The fields that curl sends by itself.
            for name in ["User-Agent", "Accept"] where !request.headers.contains(name) {
                words += ["-H", "'\(name):'"]
            }
        }
        words += request.body.map { self.words(of: $0, of: request) } ?? self.words(ofEmptyBody: request)
        if request.decompresses != false, !request.headers.contains("Accept-Encoding") { words.append("--compressed") }
        let unix = UnixAddress.isOne(request.url) ? try? UnixAddress(request.url) : nil
        let isGiven = options.contains { $0.name == "--unix-socket" }
        if !isGiven, let path = unix?.socketPath ?? request.unixSocketPath { words += ["--unix-socket", quoted(path)] }
        let url = (unix?.url ?? request.url).idempotentlyPercentEncoded
        // curl takes `[1-5]` for five URLs.
        if url.contains("[") { words.append("--globoff") }
        words.append(quoted(url))
        return words.joined(separator: " ")
    }

    /// Whether the command gives the method with `-X`. curl then keeps the method over every redirect.
    package func namesMethod(of request: HTTPRequest) -> Bool {
        request.method != .head && request.method != (request.body != nil || sendsEmptyBody(request) ? .post : .get)
    }

    /// The part of the request that no command can hold, as the end of a sentence; `nil` when there is none. An argument ends at
    /// a NUL, and a shell's text is UTF-8.
    package static func obstacle(
        in request: HTTPRequest, options: [(name: String, value: String?)] = []
    ) -> String? {
        func isText(_ data: Data) -> Bool { !data.contains(0) && String(validating: data, as: UTF8.self) != nil }
        func isText(_ text: String?) -> Bool { !(text?.utf8.contains(0) ?? false) }
        if !isText(request.method.rawValue) { return "the method has a NUL" }
        if !isText(request.url) { return "the URL has a NUL" }
        for (name, value) in request.headers where !isText(name) || !isText(value) {
            return "the field \(URLText.visible(name)) has a NUL"
        }
        for option in options where !isText(option.value) { return "the value of \(option.name) has a NUL" }
        let inBody = "the body has a NUL or bytes that are not UTF-8"
        switch request.body?.content {
        case .data(let data): return isText(data) ? nil : inBody
        case .encoded(let encoder): return (try? encoder.encode()).map(isText) ?? true ? nil : inBody
        case .file(let path): return isText(path) ? nil : "the path of the body has a NUL"
        case .multipart(let files):
            for file in files {
                let texts = [file.name, file.fileName, file.contentType].allSatisfy(isText)
                let isHeld =
                    switch file.source {
                    case .data(let data): isText(data)
                    case .path(let path): isText(path)
                    case .stream: true
                    }
                if !texts || !isHeld {
                    return "the part \(URLText.visible(file.name)) has a NUL or bytes that are not UTF-8"
                }
                if file.name.unicodeScalars.contains("=") {
                    return "the name of the part \(URLText.visible(file.name)) has an equals sign"
                }
            }
            return nil
        case .parameters, .stream, nil: return nil
        }
    }

    private func words(of body: HTTPBody, of request: HTTPRequest) -> [String] {
        let ownType = request.headers["Content-Type"]
        if case .multipart(let files) = body.content { return files.flatMap { ["-F", quoted(part($0))] } }
        var words: [String] = []
        if ownType == nil {
            // Without the field, curl says that the body is a form.
            words = ["-H", quoted(body.contentType.map { "Content-Type: \($0)" } ?? "Content-Type:")]
        }
        switch body.content {
        case .file(let path): words += ["--data-binary", quoted("@\(path)")]
        case .stream: words += ["--data-binary", "@-"]
        default: words += ["--data-raw", quoted(text(of: body))]
        }
        return words
    }

    /// The engine sends `Content-Length: 0` with a POST, PUT or PATCH without a body (RFC 9110 §8.6); curl does so only with
    /// `-d ''`.
    private func words(ofEmptyBody request: HTTPRequest) -> [String] {
        guard sendsEmptyBody(request) else { return [] }
        return (request.headers.contains("Content-Type") ? [] : ["-H", "'Content-Type:'"]) + ["-d", "''"]
    }

    private func sendsEmptyBody(_ request: HTTPRequest) -> Bool {
        guard case .run = purpose, request.body == nil else { return false }
        return [.post, .put, .patch].contains(request.method)
    }

    private func part(_ file: UploadFile) -> String {
        // curl ends the name at the first `=`, and reads the file that an `@` after it names.
        let name = file.name.replacingScalars(["=": "%3D"])
        let facts =
            (file.fileName.map { ";filename=\(escaped($0))" } ?? "") + (file.contentType.map { ";type=\($0)" } ?? "")
        return switch file.source {
        case .path(let path): "\(name)=@\(escaped(path))\(facts)"
        case .stream: "\(name)=@-\(facts)"
        case .data(let data): "\(name)=\(escaped(String(decoding: data, as: UTF8.self)))\(facts)"
        }
    }

    /// A value within `-F` in double quotes, in which curl looks for neither `;` nor a leading `@` or `<`.
    private func escaped(_ value: String) -> String {
        "\"\(value.replacingScalars(["\\": "\\\\", "\"": "\\\""]))\""
    }

    private func text(of body: HTTPBody) -> String {
        switch body.content {
        case .data(let data): String(decoding: data, as: UTF8.self)
        case .encoded(let encoder): String(decoding: (try? encoder.encode()) ?? Data(), as: UTF8.self)
        default: ""
        }
    }

    /// Quotes a text for a shell in single quotes. A log has control characters escaped, so that it stays one line.
    private func quoted(_ text: String) -> String {
        if case .log = purpose { return URLText.visible(text).shellQuoted }
        return text.shellQuoted
    }
}

extension String {
    /// Whether a shell reads the text as it is.
    package var isShellWord: Bool { allSatisfy { $0.isASCII && $0.isLetter } }

    /// The text as one word of a shell. Control characters, which a terminal would act on when the word is pasted, are
    /// escaped in `$'…'` of bash, zsh and ksh (POSIX.1-2024 §2.2.4).
    package var shellQuoted: String {
        guard unicodeScalars.contains(where: \.controlsTerminal) else { return "'\(replacingScalars(["'": "'\\''"]))'" }
        let escaped = unicodeScalars.map { scalar in
            switch scalar {
            case "'", "\\": "\\\(scalar)"
            case _ where scalar.controlsTerminal:
                String(scalar).utf8.map { byte in
                    let digits = String(byte, radix: 8)
                    return "\\" + String(repeating: "0", count: 3 - digits.count) + digits
                }.joined()
            default: String(scalar)
            }
        }
        return "$'\(escaped.joined())'"
    }

    /// Replaces Unicode scalars, because a quote and a combining mark after it are one `Character`, but the quote still
    /// ends a quoted text.
    package func replacingScalars(_ replacements: [Unicode.Scalar: String]) -> String {
        unicodeScalars.reduce(into: "") { $0 += replacements[$1] ?? String($1) }
    }
}
