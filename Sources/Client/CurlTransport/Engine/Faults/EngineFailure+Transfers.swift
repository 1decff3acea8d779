import CLibcurl
import Cryptography
internal import HTTPCore
import Platform

extension EngineFailure {
    static let headTooLarge = violation(
        "the response's head is larger than \(ResponseHead.sizeLimit >> 20) MiB; have the server send fewer or shorter "
            + "fields")

    static let unaskedUpgrade = violation(
        "the server switched to another protocol (101), which the request did not ask for (RFC 9110 §15.2.2); repair the "
            + "server or the intermediary")

    static func violation(_ message: String) -> NetworkError { NetworkError(.protocolViolation, message: message) }

    static let invalidLength = NetworkError(
        .protocolViolation,
        message:
            "the response's Content-Length is not a number, or has two different values, so the end of the body is "
            + "unknown; repair the server or the intermediary")

    static let transferCoding = NetworkError(
        .protocolViolation,
        message:
            "the response has a Transfer-Encoding other than chunked, which was not asked for (RFC 9110 §10.1.4); repair "
            + "the server or the intermediary")

    static let notReplayable = NetworkError(
        .requestBody,
        message: "the body must be sent again, but its stream can be read only once; use the closure form of .stream, "
            + "data or a file")

    static func decompressionBomb(ratio: Int64) -> NetworkError {
        NetworkError(
            .bodyTooLarge,
            message: "the decompressed body is more than \(ratio) times as large as the compressed one; raise "
                + "maxDecompressionRatio if the server is trusted, or set decompresses = false")
    }

    /// A complete message whose coded body is not.
    static func truncated(_ decoder: BodyDecoder) -> NetworkError {
        NetworkError(
            .connectionLost,
            message: "the body ends before its coding (\(decoder.name)) does, \(place(of: decoder)); the server or an "
                + "intermediary cut it: send the request again, or \(keepsCoding)")
    }

    /// A body without a length, whose TLS connection was closed in the middle of a record.
    static func cutRecord(_ transfer: Transfer) -> NetworkError {
        NetworkError(
            .connectionLost,
            message:
                "the TLS connection was closed within a record, \(place(of: transfer)), and no field tells the length of "
                + "the body; the server or an intermediary cut it: send the request again")
    }

    static func shortBody(_ transfer: Transfer) -> NetworkError {
        NetworkError(.connectionLost, message: "the server ended the stream, \(place(of: transfer))")
    }

    static let flood = violation(
        "the server kept sending frames of HTTP/2 that carry nothing, faster than they can be read, and its connection was "
            + "closed so that other calls can go on (RFC 9113 §10.5); repair the server")

    /// A whole body that is not the one of its digest.
    static func changed(_ field: String, _ byteCount: Int64) -> NetworkError {
        NetworkError(
            .integrity,
            message: "the \(byteCount) bytes of the body do not agree with the \(field) of its response; the server or "
                + "an intermediary changed it: send the request again, or set digests.checks = false for a server whose "
                + "digests are wrong")
    }

    static func undecodable(_ fault: CodingFault, _ decoder: BodyDecoder) -> NetworkError {
        switch fault {
        case .noMemory: return noResources("memory to decode a body")
        case .tooMany(let limit):
            return NetworkError(
                .protocolViolation,
                message: "the body has more than \(limit) codings (\(decoder.name)); correct the server, or "
                    + keepsCoding)
        case .hollow(let limit):
            return NetworkError(
                .bodyTooLarge,
                message: "more than \(limit >> 20) MiB within the codings of the body (\(decoder.name)) become "
                    + "nothing, \(place(of: decoder)); correct the server, or \(keepsCoding)")
        case .unknown(let name, let hint):
            return NetworkError(
                .protocolViolation,
                message: "the server sent the body in the coding \"\(String(name.prefix(32)).escaped)\", which was not "
                    + "asked for and cannot be decoded; \(hint ?? "")correct the server, or \(keepsCoding)")
        case .otherDictionary:
            return NetworkError(
                .integrity,
                message: "the body is coded with another dictionary than the one that the request offered "
                    + "(Available-Dictionary, RFC 9842); the server or an intermediary chose the wrong response: send the "
                    + "request again, which does not offer that dictionary, or set usesDictionaries = false")
        case .invalid(let name, let reason):
            return NetworkError(
                .protocolViolation,
                message: "the body is not valid \(name) (\(reason)), \(place(of: decoder)); correct the server, or "
                    + keepsCoding)
        }
    }

    private static func place(of decoder: BodyDecoder) -> String {
        "after \(decoder.codedByteCount) coded and \(decoder.byteCount) decoded bytes"
    }

    private static let keepsCoding = "set decompresses = false for the bytes as they were sent"

    static func multi(_ code: CURLMcode) -> NetworkError {
        NetworkError(.other, message: "libcurl refused the request: \(String(cString: curl_multi_strerror(code)))")
    }

    static func idle(_ transfer: Transfer, timings: Timings) -> NetworkError {
        let error = NetworkError(
            .timeout(.idle),
            message: "no bytes moved for \(transfer.plan.idleTimeout) ms \(place(of: transfer)); raise "
                + "idleTimeout if the server is known to pause")
        return complete(error, transfer, timings)
    }

    static func staleConnection(_ transfer: Transfer) -> NetworkError {
        NetworkError(
            .connectionLost,
            message: "the server closed the reused connection as the request was sent; the request may have been "
                + "processed, so \(transfer.request.method) is not repeated automatically",
            request: transfer.request, attempts: transfer.machine.attempts.count - 1)
    }

    /// A response that ended when the server asked for HTTP/1.1.
    static func resetResponse(_ transfer: Transfer) -> NetworkError {
        NetworkError(
            .connectionLost,
            message:
                "the server ended the stream of its response with HTTP_1_1_REQUIRED, \(place(of: transfer)); the request "
                + "may have been processed, so it is not repeated automatically; set version = .http1 for this server",
            request: transfer.request, attempts: transfer.machine.attempts.count)
    }

    /// Completes an error of the engine with the facts of the transfer.
    static func complete(_ error: NetworkError, _ transfer: Transfer, _ timings: Timings) -> NetworkError {
        NetworkError(
            error.kind, message: error.message, request: transfer.request,
            response: error.response ?? partialResponse(transfer, timings), curlCode: error.curlCode,
            attempts: max(1, error.attempts), timings: timings, underlying: error.underlying)
    }

    /// The error for a transfer that libcurl ended.
    static func describe(
        _ code: CURLcode, handle: EasyHandle, transfer: Transfer, timings: Timings, now: MonotonicTime
    ) -> NetworkError {
        // Over QUIC, libcurl may instead return the error of the first packet that it could not send.
        if transfer.machine.attempts.connectionsUsed == 0, let refusal = transfer.socketRefusal,
            code == CURLE_COULDNT_CONNECT || isQUIC(code, transfer)
        {
            return complete(refusal, transfer, timings)
        }
        if transfer.machine.attempts.connectionsUsed == 0, needsFiles(code), let limit = SystemError.fileLimit {
            return complete(noDescriptor(limit, for: "file or socket"), transfer, timings)
        }
        let text = handle.errorText
        let detail =
            code == CURLE_OK
            ? "the server closed the connection"
            : headLimit(code, text, transfer).map { "\($0); have the server send fewer or shorter fields" }
                ?? (StreamReset.isWithoutError(code, text)
                    ? "the server ended the stream, and no complete response arrived before; with libcurl before 8.1 what "
                        + "arrives together with that end is lost, so install a newer libcurl if the server does this often"
                    : text.isEmpty ? String(cString: curl_easy_strerror(code)) : text)
        let proxyFault = ProxyFault.message(code, detail: detail, handle: handle, transfer: transfer)
        let resolverFault = ResolverFault(code, detail: detail, handle: handle, transfer: transfer)
        let kind: NetworkError.Kind
        if proxyFault != nil {
            kind = .proxy
        } else if let resolverFault {
            kind = resolverFault.kind
        } else if let reason = TLSFault.reason(of: code, detail: detail, handle: handle) {
            kind = .tls(reason)
        } else {
            kind = self.kind(of: code, detail: detail, handle: handle, transfer: transfer, now: now)
        }
        let message =
            proxyFault ?? resolverFault?.message ?? TLSFault.revocation(kind, transfer, handle.handshake)
            ?? message(
                kind, detail: detail, transfer: transfer,
                unixSocket: transfer.request.unixSocketPath ?? handle.engine.configuration.unixSocketPath,
                handle.handshake)
        return NetworkError(
            kind, message: message, request: transfer.request,
            response: partialResponse(transfer, timings), curlCode: Int(code.rawValue),
            attempts: transfer.machine.attempts.count, timings: timings,
            underlying: kind == .tls(.certificateStatus) ? handle.handshake?.gap : nil)
    }

    /// Whether a QUIC connection could not be opened.
    private static func isQUIC(_ code: CURLcode, _ transfer: Transfer) -> Bool {
        guard transfer.machine.attempts.connectionsUsed == 0 else { return false }
        return code == CURLE_QUIC_CONNECT_ERROR
            || transfer.plan.version.includesHTTP3
                && (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_HTTP3)
    }

    /// Whether libcurl may have failed with a code because it could not open a file or a socket before it connected: to look up
    /// a name, or to read a certificate. Its text does not say so.
    private static func needsFiles(_ code: CURLcode) -> Bool {
        [
            CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_OUT_OF_MEMORY, CURLE_FAILED_INIT,
            CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
        ].contains(code)
    }

    /// libcurl 7.88 closes an HTTP/2 connection, with this nghttp2 code, when a head does not fit.
    private static func isHeadTooLarge(_ code: CURLcode, _ text: String) -> Bool {
        code == CURLE_RECV_ERROR && text.contains("nghttp2_session_mem_recv() returned -902")
    }

    /// The limit of libcurl that the head of a response exceeds; `nil` for another failure.
    private static func headLimit(_ code: CURLcode, _ text: String, _ transfer: Transfer) -> String? {
        let library = "libcurl \(LibcurlInfo.current.version)"
        if isHeadTooLarge(code, text) { return "\(library) accepts no head of more than 128 KiB in HTTP/2 (\(text))" }
        guard transfer.machine.attempts.connectionsUsed > 0, !transfer.head.isFinal else { return nil }
        if code == .tooLarge, !text.isEmpty { return "the response's head exceeds a limit of \(library): \(text)" }
        return code == CURLE_OUT_OF_MEMORY || code == .tooLarge
            ? "the response has a header line of more than 100 KiB, the most that \(library) accepts" : nil
    }

    private static func kind(
        of code: CURLcode, detail: String, handle: EasyHandle, transfer: Transfer, now: MonotonicTime
    ) -> NetworkError.Kind {
        switch code {
        case CURLE_OK: .connectionLost  // libcurl saw no error, but the head is incomplete
        case CURLE_URL_MALFORMAT: .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST: .dns
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED: .connect
        case _ where isQUIC(code, transfer): .connect
        case CURLE_OPERATION_TIMEDOUT: .timeout(phase(handle, transfer, now))
        // libcurl 7.88 has no separate codes for these.
        case CURLE_RECV_ERROR
        where detail.contains("chunk") || detail.contains("hexadecimal") || detail.contains("Too large"):
            .protocolViolation
        case CURLE_RECV_ERROR where isHeadTooLarge(code, detail): .protocolViolation
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR: .connectionLost
        // In HTTP/2 and HTTP/3 a stream or connection that ends early has these codes; only the text says why (7.88:
        // "was not closed cleanly", 8: "reset by server").
        case CURLE_HTTP2_STREAM, CURLE_HTTP2, CURLE_HTTP3:
            ["not closed cleanly", "GOAWAY", "reset by server", "refused by server", "ended the stream"].contains {
                detail.contains($0)
            }
                ? .connectionLost : .protocolViolation
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING,
            CURLE_CHUNK_FAILED:
            .protocolViolation
        // libcurl's code for a header line of more than 100 KiB; newer versions have CURLE_TOO_LARGE.
        case CURLE_OUT_OF_MEMORY where transfer.machine.attempts.connectionsUsed > 0 && !transfer.head.isComplete:
            .protocolViolation
        case CURLcode.tooLarge where transfer.machine.attempts.connectionsUsed > 0: .protocolViolation
        case CURLE_FILESIZE_EXCEEDED: .bodyTooLarge
        case CURLE_SEND_FAIL_REWIND, CURLE_READ_ERROR: .requestBody
        case CURLE_NOT_BUILT_IN, CURLE_UNKNOWN_OPTION: .unsupported
        case CURLE_ABORTED_BY_CALLBACK: .cancelled
        default: .other
        }
    }

    private static func phase(_ handle: EasyHandle, _ transfer: Transfer, _ now: MonotonicTime)
        -> NetworkError.TimeoutPhase
    {
        // Without a connection the connect timeout has passed, unless the total timeout is shorter.
        guard transfer.machine.attempts.connectionsUsed == 0 else { return .total }
        let plan = transfer.plan
        return plan.timeout > 0 && plan.timeout < plan.connectTimeout ? .total : .connect
    }

    private static func message(
        _ kind: NetworkError.Kind, detail: String, transfer: Transfer, unixSocket: String?,
        _ handshake: TLSHandshake?
    ) -> String {
        let origin = transfer.target.origin
        let plan = transfer.plan
        return switch kind {
        case .dns: "\(detail); check the name for a typo, and the machine's resolver"
        case .connect where plan.version == VersionChoice.http3Only:
            "\(detail); does the server at \(origin) speak HTTP/3, and does the network allow UDP?"
        case .connect
        where transfer.machine.attempts.connectionsUsed == 0
            && (detail.contains("bind") || detail.contains("local port")):
            "\(detail); check connectionSource and localPorts"
        case .connect where unixSocket != nil:
            "cannot connect to the Unix domain socket \"\(unixSocket ?? "")\"; is the server running, is this its path, "
                + "and may this user write to it?"
        case .connect: "\(detail); is the server running, and is the port of \(origin) right?"
        case .timeout(.connect) where handshake?.isWithServer == true && plan.version != VersionChoice.http3Only:
            "\(origin) did not finish the TLS handshake within \(plan.connectTimeout) ms; does this port use TLS? Else raise "
                + "connectTimeout"
        case .timeout(.connect):
            "no connection to \(origin) within \(plan.connectTimeout) ms (\(detail)); raise connectTimeout, or check "
                + "whether a firewall drops the packets"
        case .timeout: "not done within \(plan.timeout) ms, \(place(of: transfer)); raise timeout"
        case .tls(let reason): TLSFault.message(reason, detail: detail, transfer: transfer, handshake?.certificate)
        case .connectionLost: "\(detail), \(place(of: transfer))"
        case .protocolViolation: "the server violated HTTP: \(detail), \(place(of: transfer))"
        default: detail
        }
    }

    /// Describes how far a transfer got.
    private static func place(of transfer: Transfer) -> String {
        if transfer.machine.attempts.connectionsUsed == 0 { return "before the connection was established" }
        if !transfer.head.hasBegun { return "before any of the response arrived" }
        if !transfer.head.isComplete { return "within the response head" }
        let announced = transfer.machine.announcedBodySize.map { " of \($0)" } ?? ""
        return "after \(transfer.machine.bodyByteCount)\(announced) bytes of the body"
    }

    private static func partialResponse(_ transfer: Transfer, _ timings: Timings) -> HTTPResponse? {
        guard transfer.head.isFinal else { return nil }
        return HTTPResponse(
            status: transfer.head.status, reason: transfer.head.reason, version: transfer.head.version,
            headers: transfer.head.headers, body: ResponseBody(transfer.body), url: transfer.target.url,
            timings: timings)
    }
}

extension CURLcode {
    /// `CURLE_TOO_LARGE`, which the headers of libcurl before 8.6 do not have.
    static let tooLarge = CURLcode(rawValue: 100)
}
