import CLibcurl
import HTTPCore
import Platform

// What fails in a transfer: the kind, what happened, and the next step.
extension EngineFailure {
    static let headTooLarge = NetworkError(
        .protocolViolation, message: "the response's head is larger than \(ResponseHead.sizeLimit >> 20) MiB")

    static let invalidLength = NetworkError(
        .protocolViolation,
        message:
            "the response's Content-Length is no number, or says two that differ, so that nobody knows where its body "
            + "ends; the server, or what stands between, has to be mended")

    static let notReplayable = NetworkError(
        .requestBody,
        message: "the body has to be sent again but its stream can be read only once; make it with the closure form "
            + "of .stream, or send data or a file")

    static func decompressionBomb(ratio: Int64) -> NetworkError {
        NetworkError(
            .bodyTooLarge,
            message: "the body grew to more than \(ratio) times its size when its compression was taken off; raise "
                + "maxDecompressionRatio if the server is trusted, or set decompresses = false")
    }

    static let errorTooLarge = NetworkError(
        .bodyTooLarge,
        message:
            "the compressed body of an error is over 1 MiB, and its reader does not keep up; read it sooner, or set "
            + "decompresses = false")

    static func multi(_ code: CURLMcode) -> NetworkError {
        NetworkError(.other, message: "libcurl did not take the request: \(String(cString: curl_multi_strerror(code)))")
    }

    static func idle(_ transfer: Transfer, timings: Timings) -> NetworkError {
        NetworkError(
            .timeout(.idle),
            message: "nothing came or went for \(transfer.plan.idleTimeout) ms \(place(of: transfer)); raise "
                + "idleTimeout if the server is known to pause",
            request: transfer.request, response: partialResponse(transfer, timings), timings: timings)
    }

    /// A proxy's 407 in plain HTTP, which comes as a response.
    static func proxyWantsCredentials(_ transfer: Transfer, _ timings: Timings) -> NetworkError {
        NetworkError(
            .proxy, message: ProxyFault.credentials(transfer), request: transfer.request,
            response: partialResponse(transfer, timings), timings: timings)
    }

    static func staleConnection(_ transfer: Transfer) -> NetworkError {
        NetworkError(
            .connectionLost,
            message: "the server closed the kept-open connection as the request went out; it may have had its effect, "
                + "so \(transfer.request.method) is not repeated by itself",
            request: transfer.request, attempts: transfer.machine.attempts.count - 1)
    }

    /// An error of the engine's own, with what is known of the transfer.
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
        if code == CURLE_OUT_OF_MEMORY || code == .tooLarge, transfer.pipe != nil, transfer.head.isComplete,
            transfer.head.isCoded
        {
            // A paused transfer's decoded bytes are kept by libcurl, up to 64 MiB for the few it read.
            return complete(decompressionBomb(ratio: transfer.plan.maxDecompressionRatio), transfer, timings)
        }
        // Over QUIC the code is that of the first packet that could not be sent.
        if transfer.machine.attempts.connectionsUsed == 0, let blocked = transfer.blockedAddress,
            code == CURLE_COULDNT_CONNECT || isQUIC(code, transfer)
        {
            return complete(blocked, transfer, timings)
        }
        let detail = handle.errorText
        let said =
            code == CURLE_OK
            ? "the server closed the connection"
            : isHeadTooLarge(code, detail)
                ? "libcurl \(LibcurlFacts.current.version) takes no head of more than 128 KiB in HTTP/2 (\(detail))"
                : detail.isEmpty ? String(cString: curl_easy_strerror(code)) : detail
        let proxyFault = ProxyFault(code, said: said, handle: handle, transfer: transfer)
        let resolverFault = ResolverFault(code, said: said, handle: handle, transfer: transfer)
        let kind: NetworkError.Kind
        if proxyFault != nil {
            kind = .proxy
        } else if let resolverFault {
            kind = resolverFault.kind
        } else if let reason = TLSFault.reason(of: code, said: said, handle: handle) {
            kind = .tls(reason)
        } else {
            kind = self.kind(of: code, said: said, handle: handle, transfer: transfer, now: now)
        }
        let message = proxyFault?.message ?? resolverFault?.message ?? message(kind, said: said, transfer: transfer)
        return NetworkError(
            kind, message: message, request: transfer.request,
            response: partialResponse(transfer, timings), curlCode: Int(code.rawValue),
            attempts: transfer.machine.attempts.count, timings: timings)
    }

    /// Whether a connection over QUIC did not come about.
    private static func isQUIC(_ code: CURLcode, _ transfer: Transfer) -> Bool {
        guard transfer.machine.attempts.connectionsUsed == 0 else { return false }
        return code == CURLE_QUIC_CONNECT_ERROR
            || transfer.plan.version.value >= CurlVersion.http3
                && (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_HTTP3)
    }

    /// libcurl 7.88 gives up a connection of HTTP/2 when it has no room for a head, with nghttp2's code for that.
    private static func isHeadTooLarge(_ code: CURLcode, _ text: String) -> Bool {
        code == CURLE_RECV_ERROR && text.contains("nghttp2_session_mem_recv() returned -902")
    }

    private static func kind(
        of code: CURLcode, said: String, handle: EasyHandle, transfer: Transfer, now: MonotonicTime
    ) -> NetworkError.Kind {
        switch code {
        case CURLE_OK: .connectionLost  // it ended well, but within the head
        case CURLE_URL_MALFORMAT: .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST: .dns
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED: .connect
        case _ where isQUIC(code, transfer): .connect
        case CURLE_OPERATION_TIMEDOUT: .timeout(phase(handle, transfer, now))
        // libcurl 7.88 has no code of its own for these.
        case CURLE_RECV_ERROR
        where said.contains("chunk") || said.contains("hexadecimal") || said.contains("Too large"):
            .protocolViolation
        case CURLE_RECV_ERROR where isHeadTooLarge(code, said): .protocolViolation
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR: .connectionLost
        // In HTTP/2 and 3 a stream or connection that ends early comes with these; the text says why (7.88: "was not closed
        // cleanly", 8: "reset by server").
        case CURLE_HTTP2_STREAM, CURLE_HTTP2, CURLE_HTTP3:
            ["not closed cleanly", "GOAWAY", "reset by server", "refused by server"].contains { said.contains($0) }
                ? .connectionLost : .protocolViolation
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING,
            CURLE_CHUNK_FAILED:
            .protocolViolation
        // libcurl's answer to a header line of more than 100 KiB; 8 has a code for it.
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
        // Without a connection it is the connect timeout, unless the total one is the shorter of the two.
        guard transfer.machine.attempts.connectionsUsed == 0 else { return .total }
        let plan = transfer.plan
        return plan.timeout > 0 && plan.timeout < plan.connectTimeout ? .total : .connect
    }

    private static func message(_ kind: NetworkError.Kind, said: String, transfer: Transfer) -> String {
        let origin = transfer.target.origin
        let plan = transfer.plan
        return switch kind {
        case .dns: "\(said); check the name for a typo, and the machine's resolver"
        case .connect where plan.version.value == CurlVersion.http3Only:
            "\(said); does the server at \(origin) speak HTTP/3, and is UDP let through?"
        case .connect
        where transfer.machine.attempts.connectionsUsed == 0 && (said.contains("bind") || said.contains("local port")):
            "\(said); the connection could not be made from connectionSource or localPorts"
        case .connect: "\(said); is the server running, and does the port of \(origin) fit?"
        case .timeout(.connect):
            "no connection to \(origin) within \(plan.connectTimeout) ms (\(said)); raise connectTimeout, or look "
                + "whether a firewall drops the packets"
        case .timeout: "not done within \(plan.timeout) ms, \(place(of: transfer)); raise timeout"
        case .tls(let reason): TLSFault.message(reason, said: said, transfer: transfer)
        case .connectionLost: "\(said), \(place(of: transfer))"
        case .protocolViolation: "the server broke the rules of HTTP: \(said), \(place(of: transfer))"
        default: said
        }
    }

    /// How far a transfer had come, in words.
    private static func place(of transfer: Transfer) -> String {
        if transfer.machine.attempts.connectionsUsed == 0 { return "before the connection stood" }
        if !transfer.head.hasBegun { return "before any of the response came" }
        if !transfer.head.isComplete { return "within the response's head" }
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
