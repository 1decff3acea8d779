import LATNetworking

/// The library's messages in the words of the command line: names of settings, and code that sets one, are replaced by
/// options.
struct ErrorWords {
    private let arguments: ParsedArguments?

    /// - Parameter arguments: The arguments, to name the option that was given when a setting has several.
    init(_ arguments: ParsedArguments? = nil) { self.arguments = arguments }

    /// The message with the request's address, without the kind of the error.
    func text(of error: NetworkError) -> String {
        let address = error.description.dropFirst("\(error.kind): \(error.message)".count)
        return message(of: error) + address
    }

    /// The message alone.
    func message(of error: NetworkError) -> String { replaced(error.message) }

    /// A text of the library, in the words of the command line.
    func replaced(_ message: String) -> String {
        var text = message
        if arguments?.contains(RequestCommand.noFollow) ?? false {
            let following = "it is followed unless redirects = .none, or the request is signed or sealed"
            text = text.replacing(following, with: "\(RequestCommand.noFollow.name) leaves it to you")
        }
        if arguments?.contains(RequestCommand.download) ?? false {
            text = text.replacing(
                ", name another target, or set existingFile to .overwrite or .skip",
                with: ", or name another target with \(OutputArgument.option.name)")
        }
        for (phrase, words) in Self.phrases { text = text.replacing(phrase, with: words) }
        for (setting, options) in Self.settings {
            let option = options.first { arguments?.contains($0) ?? false } ?? options.first
            guard let option else { continue }
            // A name in lower case may be an English word, such as `resolve`, so it names a setting only at the
            // beginning.
            let isWord = setting.allSatisfy(\.isLowercase)
            if !isWord {
                text = text.replacing(setting, with: option.name)
            } else if text.hasPrefix("\(setting):") || text.hasPrefix("\(setting) \"") {
                text = option.name + text.dropFirst(setting.count)
            }
        }
        return text
    }

    /// Settings with their options. A name that is part of another one comes after it.
    private static let settings: [(String, [Option])] = [
        ("tls.caFile", [Option.authority]),
        ("tls.clientCertificate", [ConnectionArguments.cert]),
        ("tls.requiresOCSPStapling", [ConnectionArguments.ocspStapling]),
        ("tls.keyLog", [ConnectionArguments.keyLog]),
        ("tls.pins", [ConnectionArguments.pin]),
        ("disableCertificateVerification()", [ConnectionArguments.insecure]),
        ("nameResolver", [ConnectionArguments.doh, ConnectionArguments.dnsServers]),
        ("connectionSource", [ConnectionArguments.interface]),
        ("localPorts", [ConnectionArguments.localPort]),
        ("happyEyeballsDelay", [ConnectionArguments.happyEyeballs]),
        ("connectTimeout", [RequestCommand.connectTimeout]),
        ("idleTimeout", [RequestCommand.idleTimeout]),
        ("unixSocketPath", [RequestCommand.unixSocket]),
        ("maxReceiveRate", [ConnectionArguments.limitRate]),
        ("maxSendRate", [ConnectionArguments.limitRate]),
        ("trailers.names", [ConnectionArguments.trailer]),
        ("connectTo", [ConnectionArguments.connectToOption]),
        ("endsAt", [EventsCommand.endsAt]),
        ("lastEventID", [EventsCommand.lastEventID]),
        ("altSvc", [ConnectionArguments.altSvc]),
        ("hsts", [ConnectionArguments.hsts]),
        ("netrc", [ConnectionArguments.netrcFile, ConnectionArguments.netrc]),
        ("resolve", [ConnectionArguments.resolve]),
    ]

    /// Code that messages contain, and what to type instead.
    private static let phrases = [
        ("raise timeout", "raise \(RequestCommand.timeout.name)"),
        (
            "version = .http3 and .http3Only",
            "\(RequestCommand.http3.name) and \(RequestCommand.http3Only.name)"
        ),
        ("version = .http3Only", RequestCommand.http3Only.name),
        ("version = .http3", RequestCommand.http3.name),
        ("version = .http2PriorKnowledge", RequestCommand.http2.name),
        ("redirects = .follow(limit:)", RequestCommand.maxRedirects.name),
        ("set redirects = .none to see", "use \(RequestCommand.noFollow.name) to see"),
        ("unless redirects = .none", "unless \(RequestCommand.noFollow.name) is given"),
        ("nameResolver = .servers", ConnectionArguments.dnsServers.name),
        ("nameResolver = .https", ConnectionArguments.doh.name),
        ("proxy = .url(\"https://…\")", "\(RequestCommand.proxy.name) https://…"),
        ("cookies other than .off", RequestCommand.cookies.name),
        ("use .https(url) or .system", "use \(ConnectionArguments.doh.name) URL, or leave it out"),
        ("set .off", "leave it out"),
        ("set cookies = .off", "leave out \(RequestCommand.cookies.name)"),
        ("name another, or set cookies = .memory", "name another"),
        ("limit(…), maxPages in a row", PageArguments.maxPages.name),
        ("the policy .cacheOnly", "\(RequestCommand.cache.name) cacheOnly"),
        ("check the disk or raise cacheLookUpTimeout", "check the disk"),
        ("unless journalFolder names", "unless \(UploadCommand.journal.name) names"),
        ("; write its bytes to a file, or send them as a stream", "; write its bytes to a file"),
        ("(tls.pins, or a domain's pins)", "(\(ConnectionArguments.pin.name))"),
        ("check tls.minimumVersion and the", "check the"),
        ("raise maxBodySize, or read it with stream()", "write it to a file with \(OutputArgument.option.name)"),
        (
            "raise maxDecompressionRatio if the server is trusted, or set decompresses = false",
            "ask for it uncompressed with -H 'Accept-Encoding: identity'"
        ),
        (
            "set decompresses = false for the bytes as they were sent",
            "ask for it uncompressed with -H 'Accept-Encoding: identity'"
        ),
        ("; raise eventLimit if the server is right to send it", ""),
        ("; raise messageLimit if the server is right to send it", ""),
        ("set digests.checks = false", "give \(ConnectionArguments.anyDigest.name)"),
        ("set existingFile to .overwrite or .skip", "give \(DownloadCommand.existing.name) overwrite or skip"),
    ]
}

extension Console {
    /// Writes one line with an error of the library.
    func complain(_ error: NetworkError, _ words: ErrorWords) { complain(words.text(of: error)) }

    /// Reports the error that ends a command.
    func fail(_ error: NetworkError, _ arguments: ParsedArguments) -> ExitCode {
        complain(error, ErrorWords(arguments))
        return ExitCode(error)
    }
}
